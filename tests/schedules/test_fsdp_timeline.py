"""FSDP's timeline against the lecture's numbers, closed forms and PyTorch's order of issue."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.schedules.core import simulate
from shardbook.schedules.fsdp import (
    GRADIENTS,
    PARAMETERS,
    Policy,
    Unit,
    compute_seconds,
    equal_units,
    fsdp_plan,
    fsdp_run,
)
from shardbook.schedules.fsdp_memory import gathered_elements
from shardbook.schedules.timeline import exposed, spans

FOUR = equal_units(4, forward=2, backward=4, all_gather=1.5, reduce_scatter=1.5)
GPT13B = equal_units(
    40, forward=0.020837, backward=0.041672, all_gather=0.013016, reduce_scatter=0.013016
)


def gathers(units, policy):
    return [s.start for s in spans(fsdp_run(units, policy)) if s.kind == "communication"]


def names(units, policy):
    return " ".join(action.name for action in fsdp_plan(units, policy).actions)


@pytest.mark.parametrize(
    ("policy", "makespan", "exposed_time"),
    [
        (Policy(overlap=False), 40.5, 16.5),
        (Policy(), 36.0, 12.0),
        (Policy(backward_prefetch=1), 27.0, 3.0),
        (Policy(backward_prefetch=1, limit=2), 27.0, 3.0),
        (Policy(backward_prefetch=1, limit=2, issue=0.1), 27.5, 3.4),
    ],
)
def test_four_units_take_the_lectures_times(policy, makespan, exposed_time):
    """(S29)"""
    run = fsdp_run(FOUR, policy)
    assert run.makespan == pytest.approx(makespan)
    assert exposed(run) == pytest.approx(exposed_time)
    assert compute_seconds(FOUR, policy) == 24.0


def test_the_limiter_holds_the_gathers_back():
    """(S31)"""
    limited = gathers(FOUR, Policy(backward_prefetch=1, limit=2))
    assert limited[:5] == [0.0, 1.5, 3.5, 5.5, 7.5]
    assert gathers(FOUR, Policy(backward_prefetch=1))[:5] == [0.0, 1.5, 3.0, 4.5, 6.0]


def test_prefetch_issues_the_next_gather_before_the_backward():
    backward = "AG2 B3 RS3 AG1 B2 RS2 AG0 B1 RS1 B0 RS0"
    assert names(FOUR, Policy(backward_prefetch=1)).endswith("F3 " + backward)
    assert names(FOUR, Policy()).endswith("F3 B3 RS3 AG2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0")


def test_forward_prefetch_gathers_so_many_units_ahead():
    assert names(FOUR, Policy(forward_prefetch=1)).startswith("AG0 AG1 F0 AG2 F1 AG3 F2 F3 B3")
    assert names(FOUR, Policy(forward_prefetch=2)).startswith("AG0 AG1 AG2 F0 AG3 F1 F2 F3 B3")
    assert "AG2 AG1 B3 RS3 AG0 B2" in names(FOUR, Policy(backward_prefetch=2))


@pytest.mark.parametrize(
    ("policy", "seconds", "buffers"),
    [
        (Policy(overlap=False), 4.05, 79),
        (Policy(), 3.54, 79),
        (Policy(backward_prefetch=1), 2.53, 79),
        (Policy(backward_prefetch=1, limit=2), 2.53, 2),
    ],
)
def test_13b_on_64_ranks_takes_the_lectures_times_and_buffers(policy, seconds, buffers):
    """(S30, S31, S32)"""
    run = fsdp_run(GPT13B, policy)
    assert round(run.makespan, 2) == seconds
    assert run.peaks[PARAMETERS] == buffers


def test_the_limiter_costs_time_when_the_host_is_slow():
    """(S31, S32)"""

    def slower(issue):
        free = fsdp_run(GPT13B, Policy(backward_prefetch=1, issue=issue)).makespan
        return fsdp_run(GPT13B, Policy(backward_prefetch=1, limit=2, issue=issue)).makespan / free

    assert slower(0.0) == 1.0
    assert round((slower(1e-4) - 1) * 100, 1) == 0.3
    assert round((slower(1e-3) - 1) * 100, 1) == 3.0


def test_issue_order_is_pytorchs():
    data = json.loads((Path(__file__).parent / "data" / "fsdp2_issue_order.json").read_text())
    sizes = [3168, 9312, 9312, 9312, 1552]
    units = tuple(Unit(1, 2, 1, 1, size) for size in sizes)
    for key, policy in {
        "zero3": Policy(backward_prefetch=1, regather_last=True),
        "zero2_like(reshard=False)": Policy(backward_prefetch=1, reshard=False),
    }.items():
        ours = []
        for action in fsdp_plan(units, policy).actions:
            name = action.name
            unit = int(name[-1])
            size = sizes[unit]
            ours.append([name[:2], size, 4 * size] if len(name) > 2 else [name[0], unit])
        assert ours == data[key]["events"]


SETTINGS = json.loads(
    (Path(__file__).parent / "data" / "fsdp2_issue_order_settings.json").read_text()
)


@pytest.mark.parametrize("case", SETTINGS, ids=lambda c: f"N{c['ranks']}-{c['widths']}")
def test_issue_order_is_pytorchs_with_prefetch_accumulation_and_uneven_rows(case):
    sizes = []
    for inputs, outputs in pairwise(case["widths"]):
        shapes = ((outputs, inputs), (outputs,)) if case["bias"] else ((outputs, inputs),)
        sizes.append(gathered_elements(shapes, case["ranks"]))
    policy = Policy(
        reshard=case["reshard"],
        regather_last=True,
        forward_prefetch=case["forward_prefetch"],
        backward_prefetch=case["backward_prefetch"] or 1,  # PyTorch's own, unless it is told
        micro_batches=case["micro_batches"],
        accumulate=case["accumulate"],
    )
    ours = []
    for action in fsdp_plan(tuple(Unit(1, 2, 1, 1, size) for size in sizes), policy).actions:
        kind, unit = re.fullmatch(r"(?:m\d+:)?([A-Z]+)(\d+)", action.name).groups()
        ours.append(kind + (str(sizes[int(unit)]) if kind in ("AG", "RS") else unit))
    assert " ".join(ours) == case["order"]


@given(
    st.integers(1, 9),
    st.sampled_from([0.0, 1.0, 1.5, 2.0, 5.0]),
    st.sampled_from([0.0, 1.0, 1.5, 3.0]),
    st.booleans(),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_serial_time_is_the_sum_of_its_parts(count, gather, reduce, regather):
    units = equal_units(count, 2.0, 4.0, gather, reduce)
    run = fsdp_run(units, Policy(overlap=False, regather_last=regather))
    total = count * (2.0 + 4.0 + reduce) + (2 * count - (not regather)) * gather
    assert run.makespan == total
    assert exposed(run) == total - 6.0 * count


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 3), st.integers(0, 3), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=120)
def test_buffers_stay_within_the_limit_or_what_prefetch_needs(count, limit, back, ahead, again):
    policy = Policy(
        limit=limit, backward_prefetch=back, forward_prefetch=ahead, regather_last=again
    )
    run = fsdp_run(equal_units(count, 2, 4, 1.5, 1.5), policy)
    assert run.peaks[PARAMETERS] <= max(limit, back + 1, ahead + 1)
    free = fsdp_run(
        equal_units(count, 2, 4, 1.5, 1.5),
        Policy(backward_prefetch=back, forward_prefetch=ahead, regather_last=again),
    )
    assert free.makespan <= run.makespan


def test_kept_units_are_gathered_once_and_all_held():
    run = fsdp_run(FOUR, Policy(reshard=False))
    assert run.peaks[PARAMETERS] == 4
    assert [s.name for s in spans(run)].count("AG2") == 1


def test_accumulating_reduces_once_and_keeps_every_gradient():
    """(S37)"""
    reduced = Policy(micro_batches=3)
    kept = Policy(micro_batches=3, accumulate=True)
    assert names(FOUR, reduced).count("RS") == 12
    assert names(FOUR, kept).count("RS") == 4
    assert fsdp_run(FOUR, kept).peaks[GRADIENTS] == 4
    assert simulate(fsdp_plan(FOUR, reduced)).peaks[GRADIENTS] == 1


def test_hybrid_sharding_adds_an_all_reduce_behind_each_reduce_scatter():
    units = tuple(Unit(2, 4, 1.5, 1.5, all_reduce=1.0) for _ in range(4))
    run = fsdp_run(units, Policy(backward_prefetch=1))
    assert run.makespan == 28.0
    assert names(units, Policy()).endswith("B0 RS0 AR0")


def test_communication_bound_units_gain_only_what_compute_hides():
    units = equal_units(6, 1.0, 2.0, 10.0, 10.0)
    run = fsdp_run(units, Policy(backward_prefetch=1))
    gathers_and_reductions = 11 * 10.0 + 6 * 10.0
    assert run.makespan >= gathers_and_reductions


@pytest.mark.parametrize(
    "wrong",
    [{"limit": 0}, {"issue": -1.0}, {"backward_prefetch": -1}, {"micro_batches": 0}],
)
def test_impossible_policies_are_refused(wrong):
    with pytest.raises(InputError) as caught:
        Policy(**wrong)
    assert caught.value.argument == next(iter(wrong))


def test_no_units_are_refused():
    with pytest.raises(InputError):
        fsdp_plan([])
    with pytest.raises(InputError):
        equal_units(0, 1, 1, 1, 1)
