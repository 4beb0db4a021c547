"""Storyboards, lifecycles and phases against the lecture's ledger of the MLP."""

import pytest

from shardbook.errors import InputError
from shardbook.schedules.cases import MLP_UNITS
from shardbook.schedules.fsdp import Policy
from shardbook.schedules.peaks import PHASES, Step, first_overflow, phase_peaks
from shardbook.schedules.storyboard import lifecycle, storyboard

PSI = sum(MLP_UNITS)


def total(frame):
    return sum(frame.held.values())


def frame(stage, action, ranks=4):
    return [f for f in storyboard(stage, MLP_UNITS, ranks) if f.action == action][-1]


@pytest.mark.parametrize(("stage", "bytes_per_parameter"), [(0, 16), (1, 7), (2, 5.5), (3, 4)])
def test_the_end_of_the_backward_holds_the_stages_bytes(stage, bytes_per_parameter):
    """(S24)"""
    assert total(frame(stage, "Adam")) == bytes_per_parameter * PSI


def test_stage_3_peaks_at_unit_1():
    frames = storyboard(3, MLP_UNITS, 4)
    peaks = {f.action: total(f) for f in frames if f.action.startswith("B")}
    assert peaks == {"B4": 120_504, "B3": 152_320, "B2": 156_976, "B1": 161_632, "B0": 141_712}
    assert max(map(total, frames)) == 161_632
    assert total(frame(3, "Adam")) == 130_624


def test_activations_stay_until_their_backward_at_every_stage():
    """(S24)"""
    for stage in range(4):
        frames = storyboard(stage, MLP_UNITS, 4, activations=10)
        held = [f.held["activations"] for f in frames if f.action[0] in "FB"]
        assert held == [10, 20, 30, 40, 50, 50, 40, 30, 20, 10]


def test_only_stages_1_and_2_gather_after_the_update():
    for stage in range(4):
        after = [f.action for f in storyboard(stage, MLP_UNITS, 4)]
        after = after[after.index("Adam") + 1 :]
        assert after == ([f"AG{u}" for u in range(5)] if stage in (1, 2) else [])


def test_padding_counts():
    assert total(frame(3, "Adam", ranks=3)) * 3 == 16 * (PSI + 2)


def test_a_unit_is_gathered_freed_gathered_freed_and_reduced():
    """(S28)"""
    assert lifecycle(1, 4) == (
        "AG1 → unsharded",
        "F1 → sharded",
        "AG1 → unsharded",
        "B1 → sharded",
        "RS1",
    )
    assert lifecycle(3, 4) == ("AG3 → unsharded", "F3", "B3 → sharded", "RS3")
    assert lifecycle(11, 12, Policy(reshard=False))[:2] == ("AG11 → unsharded", "F11")


def test_the_phase_that_overflows_is_named():
    """(S12)"""
    step = Step(
        100, 20, gathered=10, prefetched=1, activations=50, bucket=5, temporary=90, saved=30
    )
    assert phase_peaks(step) == {"forward": 170, "backward": 195, "optimizer": 210, "save": 130}
    assert tuple(phase_peaks(step)) == PHASES
    assert first_overflow(step, 169) == "forward"
    assert first_overflow(step, 170) == "backward"
    assert first_overflow(step, 200) == "optimizer"
    assert first_overflow(step, 210) is None
    assert first_overflow(step, 210, slack=0.05) == "optimizer"


def test_gathering_the_whole_model_moves_the_overflow_to_the_forward():
    blocks = Step(398, gathered=629, activations=3000)
    whole = Step(398, gathered=25_493, activations=3000)
    assert first_overflow(blocks, 24_000) is None
    assert first_overflow(whole, 24_000) == "forward"


def test_impossible_steps_are_refused():
    with pytest.raises(InputError, match="stage"):
        storyboard(4, MLP_UNITS, 4)
    with pytest.raises(InputError, match="units"):
        storyboard(3, [], 4)
    with pytest.raises(InputError, match="states"):
        Step(-1)
    with pytest.raises(InputError, match="unit"):
        lifecycle(4, 4)
