"""The numbers of two explorers, against formulas, the lecture's values and a second allocator."""

import re

import pytest

from shardbook.errors import InputError
from shardbook.explorers.registry import get
from shardbook.explorers.view import View

MIB, GIB = 2**20, 2**30


def activations(**state: str) -> View:
    return get("activations-and-checkpointing").view(state)


def fragmentation(**state: str) -> View:
    return get("fragmentation").view(state)


def peaks(view: View) -> dict[int, str]:
    return {int(row[0].split()[0]): row[3] for row in view.table.rows if row[0][0].isdigit()}


def test_the_lecture_s_five_intervals_are_in_the_table() -> None:
    # S14: 32 layers of 64 MiB
    shown = peaks(activations())
    assert [shown[k] for k in (1, 2, 4, 8)] == ["576 MiB", "384 MiB", "384 MiB", "576 MiB"]
    assert shown[16] == "1.031 GiB"  # 1,056 MiB
    assert "keeping all takes 2 GiB" in activations().sentence
    assert "an interval of 3 needs least, 352 MiB" in activations().sentence


def test_a_short_last_segment_moves_the_peak_to_the_one_before_it() -> None:
    # 32 = 10 × 3 + 2: backward begins with 11 checkpoints and 2 layers, 304 MiB; then come 10 and
    # 3, 352 MiB.
    rows = {row[0].split()[0]: row[1:4] for row in activations(interval="3").table.rows}
    assert rows["3"] == ("10 of 11, 16 MiB each", "3 × 64 MiB", "352 MiB")
    assert rows["4"] == ("8, 16 MiB each", "4 × 64 MiB", "384 MiB")
    assert rows["12"] == ("2 of 3, 16 MiB each", "12 × 64 MiB", "800 MiB")
    assert rows["32"][0] == "1, 16 MiB each"
    assert "352 MiB (10 of 11 checkpoints and 3 layers)" in activations(interval="3").sentence
    assert "(1 checkpoint and 32 layers)" in activations(interval="32").sentence


def test_by_the_published_formula_every_layer_is_best() -> None:
    layer = 2048 * 4096 * (34 + 5 * 32 * 2048 / 4096)
    view = activations(formula="published")
    assert f"{32 * layer / GIB:.4g} GiB" in view.sentence
    assert peaks(view)[1] == f"{(32 * 16 * MIB + layer) / GIB:.4g} GiB"
    assert view.sentence.endswith("no other interval needs less.")


@pytest.mark.parametrize("parallel", [1, 2, 4, 8])
def test_tensor_parallel_ranks_split_all_but_ten(parallel: int) -> None:
    layer = 2048 * 4096 * (10 + 24 / parallel)
    view = activations(formula="fused", tensor_parallel=str(parallel), interval="1")
    assert peaks(view)[1] == f"{(32 * 16 * MIB + layer) / MIB:.4g} MiB"


def test_the_price_is_one_forward_and_the_attention_if_selective() -> None:
    # forward 24bsh² + 4bs²h, backward twice as much, attention 4bs²h
    forward = 24 * 2048 * 4096**2 + 4 * 2048**2 * 4096
    attention = 4 * 2048**2 * 4096
    for formula, again in (
        ("published", forward),
        ("fused", forward),
        ("selective", forward + attention),
    ):
        for interval in ("1", "5", "32"):
            view = activations(formula=formula, interval=interval)
            assert f"for {again / (3 * forward):.1%} more compute" in view.sentence


def test_an_interval_beyond_the_layers_is_the_last() -> None:
    assert activations(layers="8", interval="30") == activations(layers="8", interval="8")


@pytest.mark.parametrize(
    ("state", "named"),
    [({"heads": "33"}, "heads"), ({"tensor_parallel": "3"}, "tensor_parallel")],
)
def test_what_does_not_divide_names_its_control(state: dict[str, str], named: str) -> None:
    with pytest.raises(InputError) as caught:
        activations(**state)
    assert caught.value.argument == named


def test_bars_end_at_the_peak_and_stand_on_the_axis() -> None:
    kept, recomputed = re.findall(r'<path d="([^"]*)" class="sb-activations', activations().figure)
    bars = r"M([\d.]+) ([\d.]+)v-([\d.]+)"
    bottoms, tops = re.findall(bars, kept), re.findall(bars, recomputed)
    assert len(bottoms) == len(tops) == 32
    heights = [float(a[2]) + float(b[2]) for a, b in zip(bottoms, tops, strict=True)]
    # peaks of intervals 1, 3 and 32 in MiB: 32·16 + 64, 10·16 + 3·64, 16 + 32·64
    assert heights[0] / heights[2] == pytest.approx(576 / 352, rel=1e-3)
    assert heights[31] / heights[2] == pytest.approx(2064 / 352, rel=1e-3)
    for held, again in zip(bottoms, tops, strict=True):
        assert float(again[1]) == pytest.approx(float(held[1]) - float(held[2]), abs=0.02)


def test_the_request_fails_with_44_percent_free() -> None:
    # S41: capacity 4000, checkpoint 250, temporaries 100 + 20i
    view = fragmentation()
    assert view.sentence == (
        "A request for 400 MB fails: 1,750 of 4,000 MB are free (43.75%),"
        " yet the largest hole has 260 MB."
    )
    holes = [int(row[1]) for row in view.table.rows if row[2] == "free"]
    assert holes == [100 + 20 * layer for layer in range(9)] + [130]
    assert fragmentation(request="260").sentence.startswith("The request for 260 MB succeeds")


def test_the_area_makes_room_for_the_request() -> None:
    view = fragmentation(area="on")
    assert view.sentence.startswith("The request for 400 MB succeeds; 1,350 of 4,000 MB are free")
    kept = [row for row in view.table.rows if row[2].startswith("checkpoint")]
    assert [int(row[0].replace(",", "")) for row in kept] == [250 * layer for layer in range(9)]
    assert fragmentation(area="on", request="1750").sentence.startswith(
        "The request for 1,750 MB succ"
    )
    assert fragmentation(area="on", request="1751").sentence.startswith(
        "A request for 1,751 MB fails"
    )


def test_each_layer_has_the_same_three_steps_with_and_without_the_area() -> None:
    for area in ("off", "on"):
        titles = [
            re.findall(r"Step \d+: [^<]*", fragmentation(area=area, step=str(step)).figure)[0]
            for step in (0, 1, 2, 3, 27, 28)
        ]
        assert titles[1] == "Step 1: allocate temporary 0, 100 MB"
        assert "checkpoint 0" in titles[2]
        assert titles[3] == "Step 3: free temporary 0"
        assert titles[4] == "Step 27: free temporary 8"
        assert titles[5] == "Step 28: allocate request, 400 MB"


@pytest.mark.parametrize("growth", [0, 10, 20, 50])
def test_every_step_agrees_with_an_array_of_bytes(growth: int) -> None:
    """A second allocator: one cell for each MB, the first run of free cells."""
    cells = [""] * 4000
    step = 0
    for layer in range(9):
        for name, size in (("temporary", 100 + growth * layer), ("checkpoint", 250), ("", 0)):
            if name:
                start = "".join("." if cell else " " for cell in cells).find(" " * size)
                cells[start : start + size] = [f"{name} {layer}"] * size
            else:
                cells = ["" if cell == f"temporary {layer}" else cell for cell in cells]
            step += 1
            view = fragmentation(growth=str(growth), step=str(step))
            drawn: list[str] = []
            for _, size_text, what in view.table.rows:
                size_shown = int(size_text.replace(",", ""))
                drawn += ["" if what == "free" else what] * size_shown
            assert drawn == cells


def test_an_early_failure_stays_the_last_step() -> None:
    view = fragmentation(capacity="1000")
    assert view.sentence.startswith("A request for 250 MB fails")
    assert view == fragmentation(capacity="1000", step="27")


def test_checkpoints_that_do_not_fit_the_area_name_the_control() -> None:
    with pytest.raises(InputError) as caught:
        fragmentation(area="on", capacity="2249")
    assert caught.value.argument == "checkpoint"
