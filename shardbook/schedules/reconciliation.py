"""Mistakes of the source lectures that running schedules settles: M1–M4, M29 and M30.

Documents: B is the lecture on ZeRO and FSDP, C the illustrated notes, D the extension lesson with
simulations. Every number but the claimed one is computed.
"""

from typing import Final

from shardbook.corrections import Correction, Figure
from shardbook.schedules.cases import MLP_UNITS, blocks_13b
from shardbook.schedules.fsdp import Policy, Unit, fsdp_plan, fsdp_run
from shardbook.schedules.pipeline import PipelineRun, StageTimes, make_order, run_order

_STAGES: Final = 4
_SLOT: Final = StageTimes(forward=1.0, backward_input=0.5, backward_weight=0.5)


def corrections() -> tuple[Correction, ...]:
    """Return the corrections, computed by executing the schedules."""
    return (_m1(), _m2(), _m3(), _m4(), _m29(), _m30())


def _pipeline(schedule: str, micro_batches: int, chunks: int | None = None) -> PipelineRun:
    """A forward and a full backward of one slot each."""
    return run_order(make_order(schedule, _STAGES, micro_batches, chunks), _SLOT)


def _busy(micro_batches: int) -> float:
    return 100 * (1 - _pipeline("gpipe", micro_batches).bubble_fraction)


def _formula(micro_batches: int) -> float:
    return 100 * micro_batches / (micro_batches + _STAGES - 1)


def _m1() -> Correction:
    micro_batches = 4
    slots, makespan = 2 * micro_batches, _pipeline("gpipe", micro_batches).makespan
    one_ramp = slots + _STAGES - 1
    return Correction(
        "M1",
        "C",
        "With 4 stages and 4 micro-batches, 8 of 11 slots are busy, about 73 %.",
        "The span counts one ramp, 2m + (P − 1); the pipeline fills in the forwards and drains in"
        " the backwards.",
        (
            Figure("slots from start to end", "", 11, one_ramp, makespan),
            Figure("busy", "%", 73, 100 * slots / one_ramp, _busy(micro_batches)),
        ),
        (
            f"The span is 2(m + P − 1) = {makespan:g} slots, of which 2m = {slots} are busy.",
            f"Busy: m/(m + P − 1) = {_busy(micro_batches):.1f} %.",
            f"8/11 is the value of m = 8: {_busy(8):.1f} %.",
        ),
    )


def _m2() -> Correction:
    gain = _busy(4) / _busy(1)
    one_ramp = 100 * 8 / 11
    return Correction(
        "M2",
        "C",
        "8 micro-batches give 68 %, 16 give 76 % busy; going from 1 to 4 triples it.",
        "The values don't follow from the notes' own formula m/(m + P − 1).",
        (
            Figure("busy, m = 8", "%", 68, _formula(8), _busy(8)),
            Figure("busy, m = 16", "%", 76, _formula(16), _busy(16)),
            Figure("gain from m = 1 to 4", "×", 3, one_ramp / _busy(1), gain),
        ),
        (
            f"m = 8: {_busy(8):.1f} %; m = 16: {_busy(16):.1f} %.",
            f"From m = 1 to m = 4: {_busy(4):.1f} % ÷ {_busy(1):.0f} % = {gain:.2f}.",
        ),
    )


def _m3() -> Correction:
    many, one = _pipeline("gpipe", 16), _pipeline("gpipe", 1)
    return Correction(
        "M3",
        "D",
        "The idle share is (N − 1)/M: 3/16 = 18.75 % with 4 stages and 16 micro-batches.",
        "(N − 1)/M is the extra time over the time without a bubble, not the share of the time"
        " that is idle; the lesson's own code prints the latter.",
        (
            Figure(
                "idle, M = 16",
                "%",
                18.75,
                100 * many.bubble_over_ideal,
                100 * many.bubble_fraction,
            ),
            Figure("idle, M = 1", "%", 75, 100 * one.bubble_over_ideal, 100 * one.bubble_fraction),
        ),
        (
            f"Idle share: (N − 1)/(M + N − 1) = {100 * many.bubble_fraction:.1f} %.",
            f"Extra over ideal time: (N − 1)/M = {100 * many.bubble_over_ideal:.2f} %;"
            f" at M = 1 it is {100 * one.bubble_over_ideal:.0f} %.",
        ),
    )


def _m4() -> Correction:
    plain, one, cut = (
        _pipeline("gpipe", 8),
        _pipeline("1f1b", 8),
        _pipeline("interleaved-1f1b", 8, 2),
    )
    return Correction(
        "M4",
        "D",
        "An exercise asks how much smaller the bubble of 1F1B is than that of the naive schedule.",
        "1F1B is taken for a schedule that saves time; with a flush it saves memory. (The claim"
        " names no numbers: the naive schedule's stand in their place.)",
        (
            Figure(
                "idle with 1F1B, 4 × 8",
                "%",
                100 * plain.bubble_fraction,
                100 * plain.bubble_fraction,
                100 * one.bubble_fraction,
            ),
            Figure(
                "live micro-batches, rank 0",
                "",
                plain.peak_live[0],
                plain.peak_live[0],
                one.peak_live[0],
            ),
        ),
        (
            f"Both take {one.makespan:g} slots: {100 * one.bubble_fraction:.1f} % idle.",
            f"Live micro-batches by rank: {_listed(plain)} with GPipe, {_listed(one)} with 1F1B.",
            f"Interleaving cuts the bubble: two chunks a rank, {100 * cut.bubble_fraction:.1f} %.",
            "PipeDream without a flush has no bubble in the steady state, but stale weights.",
        ),
    )


def _listed(run: PipelineRun) -> str:
    return ", ".join(map(str, run.peak_live))


def _m29() -> Correction:
    ranks = 4
    units = tuple(Unit(1.0, 2.0, 1.0, 1.0, size) for size in MLP_UNITS)

    def sent(policy: Policy) -> float:
        moved = sum(
            MLP_UNITS[int(action.name[2:])]
            for action in fsdp_plan(units, policy).actions
            if action.name.startswith(("AG", "RS"))
        )
        return moved * (ranks - 1) / ranks / sum(MLP_UNITS)

    again, kept = sent(Policy(regather_last=True)), sent(Policy())
    return Correction(
        "M29",
        "B",
        "ZeRO-3 sends 3Ψ, and its timeline of n units has n − 1 gathers in the backward.",
        "3Ψ counts a second gather of the last unit; the timeline keeps that unit from the"
        " forward, whose backward comes next.",
        (Figure("sent a rank and step, MLP on 4 ranks", "2Ψ B", 2.25, again, kept),),
        (
            f"With the last unit gathered again: 3(N − 1)/N = {again:g}; kept: {kept:.3f}.",
            "PyTorch gathers it again by default; both are settings of the timeline.",
        ),
    )


def _m30() -> Correction:
    blocks = blocks_13b()

    def seconds(issue: float, limit: int | None, ahead: int = 0) -> float:
        policy = Policy(backward_prefetch=1, forward_prefetch=ahead, limit=limit, issue=issue)
        return fsdp_run(blocks, policy).makespan

    def lost(issue: float) -> float:
        return 100 * (seconds(issue, 2) / seconds(issue, None) - 1)

    def gained(issue: float, limit: int | None) -> float:
        return 100 * (seconds(issue, limit) / seconds(issue, limit, 1) - 1)

    return Correction(
        "M30",
        "B",
        "The rate limiter leaves the time exactly unchanged; forward prefetch changes it by less"
        " than 0.5 %.",
        "True when issuing costs the host nothing, as in the lecture's timeline.",
        (
            Figure("time lost to limiter 2, 0.1 ms an action", "%", 0, lost(0), lost(1e-4)),
            Figure("time lost to limiter 2, 1 ms an action", "%", 0, lost(0), lost(1e-3)),
            Figure(
                "speed gained by forward prefetch, limiter 2, 1 ms an action",
                "%",
                0.5,
                gained(0, 2),
                gained(1e-3, 2),
            ),
        ),
        (
            "With the limiter the host waits for a buffer, then pays for the next issues while"
            " nothing is queued behind them.",
            f"Without the limiter, forward prefetch gains {gained(1e-3, None):.1f} % at 1 ms.",
        ),
    )
