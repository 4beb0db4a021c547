"""Many calls in one message give what they give one by one, and cost nobody anything."""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from shardgrade.checks.judging import Planned, Probe
from shardgrade.grading import calls
from shardgrade.sandbox import ladder
from shardgrade.sandbox.box import Warmth
from shardgrade.sandbox.channel import Channel
from shardgrade.sandbox.limits import Limits
from shardgrade.sandbox.remote import Peer

from shardbook.labs.calls import Calls, Outcome

LIMITS = Limits()
CASES = tuple((number, [number, 1, True, "x"]) for number in range(12))

Student = Callable[[str], Any]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[ladder.Sandbox]:
    with ladder.Sandbox("limits", Warmth(preload=()), LIMITS) as made:
        yield made


@pytest.fixture
def student(sandbox: ladder.Sandbox) -> Iterator[Student]:
    """The function ``f`` of a cell that runs in a student's process."""
    talk, interrupt = sandbox.start({}, LIMITS, 0)
    with talk, interrupt:
        peer = Peer(Channel(talk, LIMITS.message), interrupt=lambda: interrupt.send(b"x"))
        notebook = peer.handle(0)

        def define(code: str) -> Any:
            assert notebook.cell(f"import time\n{code}")["error"] is None
            return notebook.names(["f"])["f"]

        yield define
    sandbox.end()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Planned:
    monkeypatch.setattr(calls, "_written", {})
    made = Planned(Probe("all", lambda rng: ()), CASES, ())
    calls.write_down(made)
    return made


FUNCTIONS = {
    "right": "def f(n, items): return n, items[:2]",
    "prints": "def f(n, items): print(n); return n",
    "fails on some": "def f(n, items): return 1 // (n % 3)",
    "an error of its own": "class Mine(ValueError): pass\ndef f(n, items): raise Mine(n)",
    "the stub": "def f(n, items): raise NotImplementedError('yours')",
    "changes its argument": "def f(n, items): items.append(n); return n",
    "changes the kind of a value only": "def f(n, items): items[2] = 1; return n",
    "remembers": "seen = []\ndef f(n, items): seen.append(n); return list(seen)",
    "an object": "class Thing: pass\ndef f(n, items): return Thing()",
    "much": "def f(n, items): return ['y' * 300_000, n]",
    "too deep": "def f(n, items):\n  x = []\n  for _ in range(60): x = [x]\n  return x if n % 4 else n",
}


@pytest.mark.parametrize("code", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_a_row_gives_what_single_calls_give(student: Student, planned: Planned, code: str) -> None:
    together = list(calls.RemoteCalls(2, 9).each(student(code), planned.cases))
    function = student(code)
    alone = calls.RemoteCalls(2, 9)
    assert together == [alone.call(function, case) for case in CASES]
    space: dict[str, Any] = {"time": time}
    exec(code, space)
    if "Thing" not in code and "range" not in code:  # these can't cross, and could here
        assert together == [Calls(2, 9).call(space["f"], case) for case in CASES]


def test_most_calls_share_a_message(
    student: Student, planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = student(FUNCTIONS["right"])
    asked = []
    ask = Peer._ask

    def counted(self: Peer, data: bytes) -> Any:
        asked.append(data)
        return ask(self, data)

    monkeypatch.setattr(Peer, "_ask", counted)
    assert len(list(calls.RemoteCalls(2, 9).each(function, planned.cases))) == len(CASES)
    assert len(asked) == 1


def test_a_hang_behind_the_failed_case_costs_no_time(student: Student, planned: Planned) -> None:
    function = student("def f(n, items):\n  while n > 2: pass\n  return n")
    mine = calls.RemoteCalls(0.4, 1)
    first = next(mine.each(function, planned.cases))
    assert first == Outcome(0) and mine._left == 1
    few = itertools.islice(mine.each(function, planned.cases), 3)
    assert [outcome.value for outcome in few] == [0, 1, 2]
    assert 0.9 < mine._left <= 1 and not function._peer.slow


def test_a_hang_is_told_where_it_is(student: Student, planned: Planned) -> None:
    function = student("def f(n, items):\n  while n == 2: pass\n  return n")
    mine = calls.RemoteCalls(0.4, 2)
    outcomes = list(mine.each(function, planned.cases))
    assert [outcome.value for outcome in outcomes] == [0, 1, None, *range(3, 12)]
    assert outcomes[2].fault and outcomes[2].fault.got == "none in 0.4 s"
    assert function._peer.slow and not function._peer.timed_out and function._peer.lost is None
    assert 1.4 < mine._left < 1.7


def test_a_hang_at_the_first_case_takes_its_time_once(student: Student, planned: Planned) -> None:
    function = student("def f(n, items):\n  while n == 0: pass\n  return n")
    mine = calls.RemoteCalls(0.4, 2)
    outcomes = list(mine.each(function, planned.cases))
    assert [outcome.value for outcome in outcomes] == [None, *range(1, 12)]
    assert function._peer.slow and 1.4 < mine._left < 1.7


def test_slow_calls_that_are_in_time_all_count(student: Student, planned: Planned) -> None:
    function = student("def f(n, items): time.sleep(0.06); return n")
    outcomes = list(calls.RemoteCalls(0.4, 4).each(function, planned.cases))
    assert [outcome.value for outcome in outcomes] == list(range(12))
    assert not function._peer.slow


@pytest.mark.parametrize(
    "reply",
    [{}, {"r": 5}, {"r": [{}] * 13}, {"r": []}, {"r": [{"x": {"n": "@"}}] * 13}, {"x": {}}],
    ids=repr,
)
def test_a_reply_that_lies_gains_nothing(
    student: Student, planned: Planned, monkeypatch: pytest.MonkeyPatch, reply: dict[str, Any]
) -> None:
    function = student(FUNCTIONS["right"])
    wanted = [calls.RemoteCalls(2, 9).call(function, case) for case in CASES]
    ask = Peer._ask

    def lying(self: Peer, data: bytes) -> Any:
        return reply if b'"op":"each"' in data else ask(self, data)

    monkeypatch.setattr(Peer, "_ask", lying)
    assert list(calls.RemoteCalls(2, 9).each(function, planned.cases)) == wanted


@pytest.mark.parametrize("entry", [5, {"m": 3}, {"m": {"9": 1}}, {"x": {"n": "@"}}, {"r": ["?"]}])
def test_an_entry_that_lies_is_a_fault_of_its_case(
    student: Student, planned: Planned, monkeypatch: pytest.MonkeyPatch, entry: Any
) -> None:
    function = student(FUNCTIONS["right"])
    monkeypatch.setattr(Peer, "_ask", lambda self, data: {"r": [entry] + [{"r": 1}] * 11})
    outcomes = list(calls.RemoteCalls(2, 9).each(function, planned.cases))
    assert len(outcomes) == len(CASES)
    assert outcomes[0].fault and all(one == Outcome(1) for one in outcomes[1:])


def test_a_death_in_a_row_ends_it(student: Student, planned: Planned) -> None:
    function = student("import os\ndef f(n, items): return n if n < 3 else os._exit(3)")
    outcomes = list(calls.RemoteCalls(2, 9).each(function, planned.cases))
    assert len(outcomes) == len(CASES)
    assert all(outcome.fault for outcome in outcomes)
    assert function._peer.lost == "the process died"


def test_cases_that_hold_functions_go_one_by_one(
    student: Student, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(calls, "_written", {})
    cases = tuple((number, lambda n: n + 1) for number in range(3))
    calls.write_down(Planned(Probe("all", lambda rng: ()), cases, ()))
    assert calls._written == {}
    function = student("def f(n, more): return more(n)")
    mine = calls.RemoteCalls(2, 9)
    monkeypatch.setattr(function._peer._answers, "_guarded", "__main__")
    assert [one.value for one in mine.each(function, cases)] == [1, 2, 3]
