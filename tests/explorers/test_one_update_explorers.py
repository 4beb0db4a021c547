"""The update object by object, and does this update survive: their numbers are the lecture's."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

from shardbook.errors import InputError
from shardbook.explorers.registry import get
from shardbook.ledger.lifetimes import one_step, total

TYPES = {
    "FP32": np.float32,
    "FP16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "FP8 E4M3": ml_dtypes.float8_e4m3fn,
    "FP8 E5M2": ml_dtypes.float8_e5m2,
}


def cells(name: str, **state: str) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in get(name).view(state).table.rows}


def test_the_sentence_of_each_step_tells_its_bytes() -> None:
    step = one_step((32, 96, 96, 96, 96, 16), 16)
    for number, moment in enumerate(step.moments):
        sentence = get("update-step-by-step").view({"step": str(number)}).sentence
        assert f"{total(step.during(number)):,} B" in sentence
        assert "559,744 B, in update 1" in sentence
        assert moment in sentence or number in (0, len(step.moments) - 1)


def test_the_rows_of_the_lectures_step() -> None:
    shown = cells("update-step-by-step", step="14")
    assert shown["weights"] == (f"{2 * 32656:,} B", "always", "used")
    assert shown["momentum"] == (f"{4 * 32656:,} B", "always", "used")
    assert shown["activations of layer 0"] == ("1,024 B", "load to backward 0", "not there")
    assert shown["gradients of layer 1"] == ("18,624 B", "backward 1 to clear", "used")
    assert shown["gradients of layer 2"] == ("18,624 B", "backward 2 to clear", "stored")
    assert shown["FP32 gradient"] == ("37,248 B at most", "update 0 to update 4", "used")
    assert shown["all, while it runs"][0] == "559,744 B"
    assert shown["all, after it"][0] == "522,496 B"


def test_the_sizes_of_what_is_there_add_up_to_what_is_held() -> None:
    """In backward 3: what comes in and what goes out of it are both gradients of outputs."""
    shown = cells("update-step-by-step", step="9")
    assert shown["gradients of outputs"][0] == f"{2 * 2 * 16 * 96:,} B at most"
    there = [
        row for name, row in shown.items() if not name.startswith("all") and row[2] != "not there"
    ]
    sizes = [int(row[0].split()[0].replace(",", "")) for row in there]
    assert f"{sum(sizes):,} B" == shown["all, while it runs"][0] == "495,296 B"


def test_a_step_beyond_the_last_shows_the_last() -> None:
    explorer = get("update-step-by-step")
    beyond, last = (explorer.view({"network": "32,16", "step": n}) for n in ("18", "6"))
    assert beyond == last and "Clear" in last.sentence


def test_the_bars_are_as_high_as_their_bytes() -> None:
    view = get("update-step-by-step").view({"step": "18"})
    step = one_step((32, 96, 96, 96, 96, 16), 16)
    boxes = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z", view.figure)
    high = dict.fromkeys(range(19), 0.0)
    for x, y, _, height in (map(float, box) for box in boxes):
        if y < 154:
            high[int((x - 160) / (476 / 19))] += height
    peak = total(step.during(step.peak))
    for number, height in high.items():
        assert height == pytest.approx(120 * total(step.during(number)) / peak, abs=0.1)


@pytest.mark.parametrize("weight", ["0.01", "1", "2", "100"])
@pytest.mark.parametrize("update", ["0.0003", "0.01", "0.1"])
@pytest.mark.parametrize("direction", ["plus", "minus"])
def test_each_format_does_what_numpy_does(weight: str, update: str, direction: str) -> None:
    shown = cells("number-format", weight=weight, update=update, direction=direction, count="7")
    signed = float(update) if direction == "plus" else -float(update)
    for row, (_, _, fate, alone, kept) in shown.items():
        name = row.partition(":")[0]
        if name not in TYPES:
            continue
        kind = TYPES[name]
        start = kind(float(weight))
        moved = kind(float(start) + signed) != start
        assert fate == ("survives" if moved else "lost"), name
        total_, master = start, np.float32(float(weight))
        for _ in range(7):
            total_ = kind(float(total_) + signed)
            master = np.float32(float(master) + signed)
        for text, value in ((alone, total_), (kept, kind(float(master)))):
            assert float(text.replace("−", "-")) == pytest.approx(
                float(value), rel=float(ml_dtypes.finfo(kind).eps) / 4
            )


def test_the_sentence_tells_the_chosen_formats_fate() -> None:
    explorer = get("number-format")
    assert "1 + 0.0003 is 1: the update is lost" in explorer.view({}).sentence
    assert "the weight is 1 (exactly 1.003)" in explorer.view({}).sentence
    assert "the weight is 1.00293" in explorer.view({"master": "on"}).sentence
    assert "survives" in explorer.view({"direction": "minus"}).sentence
    assert (
        "overflows"
        in explorer.view({"format": "FP8 E4M3", "weight": "400", "update": "1000"}).sentence
    )


def test_eleven_bits_of_mantissa_keep_the_update() -> None:
    for bits, fate in (("10", "lost"), ("11", "survives")):
        own = {"format": "own", "exponent_bits": "5", "mantissa_bits": bits}
        assert (
            f"the update {'is lost' if fate == 'lost' else fate}"
            in get("number-format").view(own).sentence
        )
        assert cells("number-format", **own)[f"your format: 1 + 5 + {bits}"][2] == fate


def test_the_ring_stands_on_a_number_of_the_format() -> None:
    for update in ("0.0003", "0.0005", "0.002", "0.1"):
        figure = ElementTree.fromstring(get("number-format").view({"update": update}).figure)
        rings = [e for e in figure.iter() if e.get("r") == "10"]
        ticks = [e for e in figure.iter() if e.tag.endswith("line") and e.get("y1") == "103"]
        assert len(rings) == 1 and len(ticks) >= 4
        assert rings[0].get("cx") in {tick.get("x1") for tick in ticks}


def test_labels_of_the_number_line_do_not_overlap() -> None:
    for fmt in TYPES:
        for weight in ("0.001", "0.25", "1", "100"):
            for update in ("1e-8", "0.0003", "0.1"):
                state = {"format": fmt, "weight": weight, "update": update}
                figure = ElementTree.fromstring(get("number-format").view(state).figure)
                labels = [
                    (float(e.attrib["x"]), len(e.text or ""))
                    for e in figure.iter()
                    if e.tag.endswith("text")
                    and e.get("y") == "138"
                    and re.match(r"[−\d]", e.text or "")
                ]
                for (left, a), (right, b) in pairwise(labels):
                    assert right - left > 3.4 * (a + b), (state, labels)


def test_a_weight_the_format_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match="weight"):
        get("number-format").view({"format": "FP8 E4M3", "weight": "1000"})
