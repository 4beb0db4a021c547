"""The allocator: a second implementation byte by byte, and its invariants (S41, S42)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.ledger.fragmentation import (
    Action,
    Block,
    Heap,
    forward_pass,
    parse_program,
    picture,
    run,
)

quiet = settings(derandomize=True, deadline=None)


def test_44_percent_free_and_a_request_for_400_fails() -> None:
    """(S41)"""
    last = run(4000, forward_pass())[-1]
    assert last.failure is not None
    assert last.failure.requested == 400
    assert last.heap.free_bytes == 1750
    assert last.heap.free_bytes / last.heap.capacity == 0.4375
    assert last.heap.largest_hole == 260
    assert [hole.size for hole in last.heap.holes] == [*range(100, 261, 20), 130]


def test_the_same_request_succeeds_with_an_area_for_the_long_lived_blocks() -> None:
    """(S42)"""
    steps = run(4000, forward_pass(keep=True), area=9 * 250)
    assert all(step.failure is None for step in steps)
    heap = steps[-2].heap
    assert heap.free_bytes == heap.largest_hole == 1750
    assert [block.start for block in heap.blocks] == [250 * i for i in range(9)]
    assert steps[-1].heap.find("request") == Block("request", 2250, 400)


def test_a_hole_of_just_the_size_is_used_and_one_byte_more_fails() -> None:
    assert run(4000, forward_pass(request=260))[-1].failure is None
    assert run(4000, forward_pass(request=261))[-1].failure is not None


def test_freed_neighbours_grow_together_on_both_sides() -> None:
    program = parse_program(
        "allocate a 10; allocate b 10; allocate c 10; allocate d 10; free a; free c; free b"
    )
    steps = run(40, program)
    sizes = [[(hole.start, hole.size) for hole in step.heap.holes] for step in steps[-3:]]
    assert sizes == [[(0, 10)], [(0, 10), (20, 10)], [(0, 30)]]


def test_first_fit_takes_the_first_hole_not_the_best() -> None:
    program = (
        "allocate a 30; allocate b 1; allocate c 10; allocate d 1; free a; free c; allocate e 10"
    )
    assert run(60, parse_program(program))[-1].heap.find("e") == Block("e", 0, 10)


def test_a_full_area_fails_and_shows_its_holes() -> None:
    program = "allocate a 30; keep a; allocate b 30; keep b"
    last = run(100, parse_program(program), area=50)[-1]
    assert str(last.failure).splitlines() == [
        "keep b: no hole of 30 B (holes: 20; free 20 B of the area)",
        "###################.............|###################.............",
    ]
    assert last.heap.find("b") == Block("b", 50, 30)


def test_a_failure_draws_the_heap() -> None:
    failure = run(4000, forward_pass())[-1].failure
    first, drawn = str(failure).splitlines()
    assert first == (
        "allocate request 400: no hole of 400 B (holes: 100, 120, 140, 160, 180, 200, 220, 240,"
        " 260, 130; free 1,750 B of 4,000 B)"
    )
    assert len(drawn) == 64
    assert picture(Heap(8, 0, (Block("a", 2, 3),)), width=8) == "..###..."


@pytest.mark.parametrize("keep", [True, False])
def test_actions_read_as_they_print(keep: bool) -> None:
    program = forward_pass(keep=keep)
    assert parse_program("\n".join(map(str, program))) == program


class _Bytes:
    """A second implementation: one list entry a byte."""

    def __init__(self, capacity: int, area: int) -> None:
        self.cells: list[str | None] = [None] * capacity
        self.area = area

    def place(self, name: str, size: int, low: int, high: int) -> bool:
        for start in range(low, high - size + 1):
            if not any(self.cells[start : start + size]):
                self.cells[start : start + size] = [name] * size
                return True
        return False

    def do(self, action: Action) -> bool:
        if action.verb == "allocate":
            return self.place(action.name, action.size, self.area, len(self.cells))
        old = [i for i, cell in enumerate(self.cells) if cell == action.name]
        if action.verb == "keep" and not self.place(action.name, len(old), 0, self.area):
            return False
        for i in old:
            self.cells[i] = None
        return True


@st.composite
def programs(draw: Any) -> list[Action]:
    actions: list[Action] = []
    general: list[str] = []
    kept: list[str] = []
    for number in range(draw(st.integers(1, 25))):
        verb = draw(st.sampled_from(["allocate", "allocate", "free", "keep"]))
        if verb == "allocate" or not (general if verb == "keep" else general + kept):
            general.append(f"b{number}")
            actions.append(Action("allocate", f"b{number}", draw(st.integers(1, 12))))
            continue
        name = draw(st.sampled_from(general if verb == "keep" else general + kept))
        (general if name in general else kept).remove(name)
        if verb == "keep":
            kept.append(name)
        actions.append(Action(verb, name))
    return actions


@quiet
@given(programs(), st.integers(20, 60), st.integers(0, 20))
def test_every_step_equals_the_allocator_byte_by_byte(
    program: list[Action], capacity: int, area: int
) -> None:
    second = _Bytes(capacity, area)
    steps = run(capacity, program, area)
    for step in steps:
        assert second.do(step.action) == (step.failure is None)
        cells: list[str | None] = [None] * capacity
        for block in step.heap.blocks:
            assert not any(cells[block.start : block.stop])
            cells[block.start : block.stop] = [block.name] * block.size
        assert cells == second.cells
        assert step.heap.free_bytes == cells[area:].count(None)
    assert len(steps) == len(program) or steps[-1].failure


@quiet
@given(programs(), st.integers(20, 60), st.integers(0, 20))
def test_live_blocks_never_move(program: list[Action], capacity: int, area: int) -> None:
    before = Heap(capacity, area)
    for step in run(capacity, program, area):
        for block in before.blocks:
            if step.action.name != block.name:
                assert step.heap.find(block.name) == block
        before = step.heap


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("capacity", lambda: run(0, ())),
        ("area", lambda: run(10, (), area=11)),
        ("block", lambda: run(10, parse_program("free a"))),
        ("block", lambda: run(10, parse_program("keep a"))),
        ("block", lambda: run(10, parse_program("allocate a 1; allocate a 1"))),
        ("block", lambda: run(10, parse_program("allocate a 1; keep a; keep a"), area=5)),
        ("size", lambda: run(10, [Action("allocate", "a", 0)])),
        ("size", lambda: run(10, [Action("allocate", "a", 1.5)])),  # type: ignore[arg-type]
        ("action", lambda: run(10, [Action("move", "a")])),
        ("action", lambda: parse_program("allocate a")),
        ("action", lambda: parse_program("allocate a -1")),
        ("action", lambda: parse_program("move a")),
        ("action", lambda: parse_program("free a b")),
        ("size", lambda: parse_program("allocate a 0")),
        ("layers", lambda: forward_pass(layers=0)),
        ("temporary", lambda: forward_pass(temporary=-1)),
        ("growth", lambda: forward_pass(growth=0.5)),  # type: ignore[arg-type]
    ],
)
def test_bad_programs_name_the_argument(argument: str, call: Any) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.argument == argument


def test_an_endless_program_is_stopped() -> None:
    def endless() -> Any:
        while True:
            yield Action("allocate", "a", 1)
            yield Action("free", "a")

    with pytest.raises(InputError, match="program"):
        run(10, endless())
