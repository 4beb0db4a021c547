"""The visible examples of lab n45: what the text shows, compared with the engine."""

from typing import Any, Final

from shardbook.labs.checking import Rule
from shardbook.labs.values import Fault, compare
from shardbook.ledger.recipes import RECIPES

_Kept = list[tuple[str, str]]

_SGD: Final = [("weights", "fp32"), ("gradients", "fp32")]
_ADAM: Final = [
    ("weights", "fp16"),
    ("gradients", "fp16"),
    ("master_weights", "fp32"),
    ("momentum", "fp32"),
    ("variance", "fp32"),
]


def _as_recipe(name: str) -> Any:
    def judge(kept: _Kept, value: Any) -> Fault | None:
        sizes = RECIPES[name].by_category()
        return compare({category: int(size) for category, size in sizes.items()}, value)

    return judge


#: task id → its rules, in the order in which they are looked at
RULES: Final = {
    "n45.1": (
        Rule(
            "each line counts in its own category, by its own format",
            "Go through the list line by line; the text has the table of formats.",
            (_ADAM,),
            _as_recipe("mixed-adam"),
        ),
        Rule(
            "every category is in the result",
            "A recipe without an optimizer state still answers for all five categories.",
            (_SGD,),
            _as_recipe("fp32-sgd"),
        ),
        Rule(
            "a second copy adds to the first",
            "Two lines of one category are two arrays in memory.",
            ([*_ADAM, ("gradients", "fp32")],),
            _as_recipe("mixed-adam-resident-fp32-gradients"),
        ),
    ),
}
