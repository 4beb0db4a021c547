"""Lab n45, the ledger: its tasks, and what each is graded for."""

from typing import Final

from shardbook.labs.tasks import Criterion, Lab, Task

_RECIPE: Final = Task(
    "n45.1",
    "Bytes per parameter of a recipe",
    "bytes_per_parameter",
    25,
    (
        Criterion(
            "categories",
            1.0,
            "each category has the bytes of the format it is kept in",
            "Follow one line of the recipe: which entry of the result does it belong to?",
        ),
        Criterion(
            "several copies",
            1.0,
            "a category that is kept twice counts twice",
            "What happens to the first line of a category when a second one comes?",
        ),
        Criterion(
            "not kept",
            0.5,
            "every category is in the result, with nothing where nothing is kept",
            "A reader of the result looks up all five categories, whatever the recipe.",
        ),
        Criterion(
            "formats",
            0.5,
            "every format of the table is known by the bytes it takes in memory",
            "A format's name tells how it computes; the table tells what it occupies.",
        ),
        Criterion(
            "whole bytes",
            0.5,
            "bytes are ints, and add up to the right sum",
            "Bytes are counted, never measured: no float, no text, no numpy scalar.",
        ),
        Criterion(
            "input untouched",
            0.5,
            "the recipe is the same after the call as before, and the sum is right",
            "The caller still needs the list: read it, don't consume it.",
        ),
    ),
)

_RANK: Final = Task(
    "n45.2",
    "Bytes per rank and category, with units that don't divide",
    "bytes_on_rank",
    45,
    (
        Criterion(
            "replicated",
            1.0,
            "what a stage does not shard is stored whole, without padding",
            "Which categories does each stage leave alone?",
        ),
        Criterion(
            "sharded",
            1.5,
            "what a stage shards is cut into equal pieces",
            "Each stage shards what the one before shards, and one thing more.",
        ),
        Criterion(
            "uneven units",
            1.5,
            "each unit is padded on its own before it is cut",
            "Try two small units by hand: is padding them together the same?",
        ),
        Criterion(
            "where the padding is",
            1.5,
            "the padding lies at the end of the unit, on the ranks that hold the end",
            "Write down which elements each rank gets; where do the real ones stop?",
        ),
        Criterion(
            "one rank",
            0.5,
            "a rank that is alone stores everything and pads nothing",
            "Put one rank into your formulas.",
        ),
    ),
)

_RANKS: Final = Task(
    "n45.3",
    "The smallest world size that fits",
    "smallest_ranks",
    35,
    (
        Criterion(
            "padding counts",
            1.5,
            "it is the smallest number of ranks whose fullest rank fits, padding included",
            "With one rank fewer, does the fullest rank really not fit?",
        ),
        Criterion(
            "just full",
            0.5,
            "a card that is filled to its last byte fits",
            "Fits means: needs no more than there is.",
        ),
        Criterion(
            "no size fits",
            1.0,
            "if no number of ranks up to the limit fits, the answer is None",
            "What a stage does not shard stays on every rank, however many there are.",
        ),
        Criterion(
            "many ranks",
            1.0,
            "a search over very many ranks ends in time",
            "The fullest rank never grows with the ranks: which search may use that?",
        ),
    ),
)

_INTERVAL: Final = Task(
    "n45.4",
    "The checkpoint interval that recomputes least",
    "best_interval",
    50,
    (
        Criterion(
            "peak",
            1.0,
            "the peak that is reported is the peak of the interval that is reported",
            "Walk through backward, segment by segment: what is alive at its start?",
        ),
        Criterion(
            "recomputed",
            0.5,
            "the layers that are reported are those that the interval recomputes",
            "Which segment's activations are still there when backward begins?",
        ),
        Criterion(
            "within the limit",
            1.0,
            "the peak of the interval is within the limit",
            "Compare the whole peak with the limit, checkpoints included.",
        ),
        Criterion(
            "fewest",
            1.5,
            "no interval within the limit recomputes fewer layers",
            "The least peak is another question than the least recomputation.",
        ),
        Criterion(
            "ties",
            0.5,
            "of intervals that recompute the same, the lower peak; then the shorter interval",
            "Which of two intervals comes first if both recompute the same?",
        ),
        Criterion(
            "nothing fits",
            0.5,
            "if no interval is within the limit, the answer is None",
            "What does your function return when it has no candidate?",
        ),
    ),
)

_ALLOCATOR: Final = Task(
    "n45.5",
    "A first-fit allocator with an area set aside",
    "first_fit",
    60,
    (
        Criterion(
            "first fit",
            1.5,
            "a block goes into the lowest hole that is large enough",
            "Not the best hole, not the latest: the first one from address zero up.",
        ),
        Criterion(
            "neighbours grow together",
            1.5,
            "free bytes side by side are one hole, in whatever order they were freed",
            "Free three neighbours, the middle one last: how many holes are there?",
        ),
        Criterion(
            "the area",
            1.5,
            "a kept block moves into the area, and its old place is free again",
            "After a block is kept, what may be allocated where it was?",
        ),
        Criterion(
            "running out",
            0.5,
            "the first request that does not fit ends the program",
            "Nothing runs after an out-of-memory error.",
        ),
        Criterion(
            "hole map",
            1.0,
            "the holes outside the area at the end, in order of address",
            "Draw the memory as a line; every gap between live blocks is one hole.",
        ),
    ),
)

N45: Final = Lab("n45", "The ledger", "n45_ledger", (_RECIPE, _RANK, _RANKS, _INTERVAL, _ALLOCATOR))
