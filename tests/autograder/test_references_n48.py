"""The reference solutions of lab n48 agree with the engine, and its checks point at the fault."""

from typing import Any

import pytest
from shardgrade.checkout import reference
from shardgrade.checks.judging import cases_of, hidden_check

from shardbook.labs.checking import examine
from shardbook.labs.handed_copies import Resharded, misplaced, reshard
from shardbook.labs.handed_programs import Ran, read_program, run_step
from shardbook.labs.registry import TASKS
from shardbook.labs.run_records import records
from shardbook.training.checks import findings
from shardbook.training.faults import Fault
from shardbook.training.incident import investigate
from shardbook.training.programs import Options, program
from shardbook.training.settings import Settings
from shardbook.training.strategies import strategy


def _ran(value: Any, units: int, micro_batches: int) -> Ran:
    actions = read_program(units, value)
    assert isinstance(actions, tuple)
    ran = run_step(actions, units, micro_batches)
    assert isinstance(ran, Ran)
    return ran


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_the_step_is_the_engines_zero3(micro_batches: int) -> None:
    options = Options(micro_batches, reduce_each=True, regather_last=False)
    engine = [str(action) for action in program(strategy("zero3"), 4, options)]
    assert reference(TASKS["n48.1"])(4, micro_batches) == engine


def test_no_other_zero3_program_of_the_engine_is_better() -> None:
    best = _ran(reference(TASKS["n48.1"])(5, 2), 5, 2)
    for each in (False, True):
        for regather in (False, True):
            for freed in (False, True):
                options = Options(
                    2, reduce_each=each, regather_last=regather, reshard_after_forward=freed
                )
                made = [str(action) for action in program(strategy("zero3"), 5, options)]
                other = _ran(made, 5, 2)
                assert other.peak_bytes >= best.peak_bytes
                assert other.peak_bytes > best.peak_bytes or other.sent_bytes >= best.sent_bytes


def test_every_unseen_resharding_is_right_for_any_sizes() -> None:
    solve = reference(TASKS["n48.2"])
    for old in range(1, 7):
        for new in range(1, 7):
            units = [old * new, 1, 7, 23]
            done = reshard(units, old, new, solve(units, old, new))
            assert isinstance(done, Resharded)
            assert misplaced(units, new, done) is None
            assert (done.copied, done.padding, done.twice) == (sum(units), 0, 0)


def test_the_engines_checks_find_what_the_reference_finds() -> None:
    task = TASKS["n48.3"]
    names = {
        "repeated-data": "distinct-data",
        "local-gradient": "joint-gradient",
        "bit-flip": "state-at-rest",
    }
    for name, check in names.items():
        incident = investigate(
            Fault(name, 1, 1), Settings(strategy="zero2", ranks=3, layers=(3, 4, 2)), 4
        )
        found = reference(task)(records(incident.faulty_steps))
        engine = next(f for f in incident.found if f.check == check)
        late = check == "state-at-rest"  # the engine names the step that ended well
        assert found[:2] == (engine.step + late, engine.rank)
        assert reference(task)(records(incident.healthy_steps)) is None
        assert findings(incident.healthy_steps) == ()


def test_healthy_and_faulty_runs_are_both_graded() -> None:
    task = TASKS["n48.3"]
    found = [
        reference(task)(*case)
        for probe in hidden_check(task).probes
        for case in cases_of(task, probe)
    ]
    assert None in found
    assert {one[2] for one in found if one} == {"storage", "data", "weights", "gradient"}


def test_the_diagnosis_of_a_program_names_rank_and_action_and_draws_the_bytes() -> None:
    finding = examine("n48.1", lambda units, micro_batches: ["load", "forward 0"]).finding
    assert finding and finding.fault.where == "rank 0, forward, unit 0"
    assert "gathered weights of unit 0" in finding.fault.got and "✗" in finding.fault.got
    keeps = [a for a in reference(TASKS["n48.1"])(3, 2) if not a.startswith("keep")]
    right = reference(TASKS["n48.1"])

    def answer(units: int, micro_batches: int) -> list[str]:
        return keeps if (units, micro_batches) == (3, 2) else right(units, micro_batches)

    finding = examine("n48.1", answer).finding
    assert finding and finding.fault.where == "the peak, at backward, unit 1"
    assert str(_ran(right(3, 2), 3, 2).peak_bytes) not in str(finding)
