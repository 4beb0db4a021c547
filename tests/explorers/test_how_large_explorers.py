"""Memory against ranks and the largest model: their numbers against formulas and the paper."""

import re
from itertools import pairwise
from math import log10
from xml.etree import ElementTree

import pytest

from shardbook.errors import InputError
from shardbook.explorers.registry import get
from shardbook.numbers.units import format_bytes


def cells(name: str, **state: str) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in get(name).view(state).table.rows}


def test_the_curves_go_through_the_formulas_of_zero() -> None:
    """16Ψ, 4Ψ + 12Ψ/N, 2Ψ + 14Ψ/N, 16Ψ/N at 7B: ZeRO §5.4 (S6)"""
    shown = cells("memory-against-ranks", parameters="7e9")
    for ranks in (1, 4, 16, 64, 256, 1024):
        sizes = (112, 28 + 84 / ranks, 14 + 98 / ranks, 112 / ranks)
        assert shown[f"{ranks:,}"] == tuple(format_bytes(size * 1e9) for size in sizes)
    assert shown["4"] == ("112 GB", "49 GB", "38.5 GB", "28 GB")
    assert shown["floor, however many ranks"] == ("112 GB", "28 GB", "14 GB", "0 B")


@pytest.mark.parametrize(
    ("state", "fewest"),
    [
        ({"parameters": "70e9"}, ("never", "never", "never", "14")),
        ({"parameters": "70e9", "recipe": "bf16-adam"}, ("never", "never", "never", "11")),
        ({"parameters": "13e9"}, ("never", "6", "4", "3")),
        ({"parameters": "7e9", "card": "24GB"}, ("never", "never", "10", "5")),
        ({"parameters": "1e6"}, ("1", "1", "1", "1")),
        ({"parameters": "405e9"}, ("never", "never", "never", "81")),
    ],
)
def test_the_fewest_ranks_are_told(state: dict[str, str], fewest: tuple[str, ...]) -> None:
    card = state.get("card", "80GB").replace("GB", " GB")
    assert cells("memory-against-ranks", **state)[f"fewest ranks for {card}"] == fewest
    sentence = get("memory-against-ranks").view(state).sentence
    for stage, ranks in enumerate(fewest):
        said = re.search(rf"at stage {stage} from ([\d,]+)", sentence)
        assert (said[1].replace(",", "") if said else "never") == ranks


def test_a_dot_stands_where_its_curve_meets_the_card_or_goes_below() -> None:
    figure = ElementTree.fromstring(get("memory-against-ranks").view({}).figure)
    limit = next(line for line in figure.iter() if line.get("class") == "sb-limit")
    dots = [e for e in figure.iter() if e.tag.endswith("circle")]
    assert len(dots) == 3
    card = float(limit.attrib["y1"])
    decade = 280 / 5  # 10 MB to 1 TB in 280 units
    # 78, 71.5 and 69.33 GB on 6, 4 and 3 ranks; between two stops the drawn curve is straight
    for dot, size in zip(dots, (78, 71.5, 208 / 3), strict=True):
        assert float(dot.attrib["cy"]) == pytest.approx(card + decade * log10(80 / size), abs=0.6)


def test_labels_at_the_right_never_overlap() -> None:
    explorer = get("memory-against-ranks")
    for parameters in ("1e6", "7e9", "13e9", "405e9", "1e13"):
        for recipe in ("mixed-adam", "fp32-sgd", "mixed-adam-8bit"):
            for card in ("8GB", "24GB", "32GB", "80GB", "192GB"):
                view = explorer.view({"parameters": parameters, "recipe": recipe, "card": card})
                texts = [
                    e for e in ElementTree.fromstring(view.figure).iter() if e.tag.endswith("text")
                ]
                heights = sorted(float(e.attrib["y"]) for e in texts if float(e.attrib["x"]) > 540)
                gaps = [b - a for a, b in pairwise(heights)]
                assert min(gaps) >= 16, (parameters, recipe, card)
                assert heights[0] > 96 and heights[-1] < 385


#: Table 2 of ZeRO as printed, by model parallelism
PRINTED = {
    "1": ("2B", "7.6B", "14.4B", "128B"),
    "2": ("4B", "15.2B", "28.8B", "256B"),
    "4": ("8B", "30.4B", "57.6B", "0.5T"),
    "8": ("16B", "60.8B", "115.2B", "1T"),
    "16": ("32B", "121.6B", "230.4B", "2T"),
}


@pytest.mark.parametrize("parallel", PRINTED)
def test_the_largest_models_are_table_2s(parallel: str) -> None:
    """(S5)"""
    shown = cells("largest-model", parallel=parallel)
    assert tuple(row[2] for row in shown.values()) == PRINTED[parallel]
    for row, each in zip(shown.values(), (16, 4 + 12 / 64, 2 + 14 / 64, 16 / 64), strict=True):
        # 32 GB over the bytes of a parameter, up to a shard's padding
        assert int(row[0].replace(",", "")) == pytest.approx(int(parallel) * 32e9 / each, rel=1e-7)


@pytest.mark.parametrize(
    "state", [{"ranks": "32"}, {"card": "80GB"}, {"parallel": "3"}, {"recipe": "bf16-adam"}]
)
def test_what_table_2_does_not_have_is_not_quoted(state: dict[str, str]) -> None:
    assert {row[2] for row in cells("largest-model", **state).values()} == {"not in it"}
    assert "Table 2" not in get("largest-model").view(state).figure


def test_a_bar_is_as_long_as_its_model() -> None:
    figure = ElementTree.fromstring(get("largest-model").view({}).figure)
    bars = [float(e.attrib["width"]) for e in figure.iter() if e.tag.endswith("rect")]
    assert [width / bars[3] for width in bars] == pytest.approx(
        [1 / 64, 0.0597, 0.1127, 1], rel=0.01
    )


def test_replicas_do_not_make_room() -> None:
    one, many = (get("largest-model").view({"stage": "0", "ranks": n}) for n in ("1", "64"))
    assert one.table.rows[0] == (*many.table.rows[0][:3], "not in it", *many.table.rows[0][4:])
    assert "64 in all" in many.sentence and "on 1 just as many" in many.sentence


def test_a_fractional_part_of_a_model_is_refused() -> None:
    with pytest.raises(InputError, match="parallel"):
        get("largest-model").view({"parallel": "1.5"})
