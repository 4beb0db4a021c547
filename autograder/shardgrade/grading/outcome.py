"""What became of a submission's cells: deaths and their causes, points, outputs."""

from typing import Any

from shardgrade.grading import reading, repair
from shardgrade.grading.result import CellResult
from shardgrade.grading.watching import State
from shardgrade.sandbox import ladder


def _name(cell: reading.Cell, index: int) -> str:
    return str(reading.settings_of(cell).get("grade_id") or f"{index + 1}")


def note_death(
    cells: list[reading.Cell],
    state: State,
    at: int | None,
    why: str,
    ending: ladder.Ending | None,
) -> None:
    """Leave out the cell where the student's process ended, and say why it did."""
    if at is None:  # before the first cell: nothing to leave out
        at = -1 - len(state.fatal)
    if ending and ending.reason:
        why = ending.reason
    elif ending and why == "the process died":
        how = f"signal {ending.signal}" if ending.signal else f"exit code {ending.code}"
        why = f"the process ended ({how})"
    elif why in ("the process hung", "no result in time"):
        state.timed_out = True
    state.fatal[at] = why
    state.done.pop(at, None)
    name = _name(cells[at], at) if at >= 0 else "the start"
    state.went_wrong.append(f"cell {name}: {why}")


def give_up(cells: list[reading.Cell], state: State, why: str) -> None:
    """Leave out all tests that are not done."""
    state.went_wrong.append(why)
    for index, cell in enumerate(cells):
        if repair.is_test(cell) and index not in state.done:
            state.fatal.setdefault(index, why)


def results(cells: list[reading.Cell], state: State) -> tuple[CellResult, ...]:
    """The graded cells' results; puts the outputs into ``cells``, and tells what went wrong."""
    found = []
    for index, cell in enumerate(cells):
        done = state.done.get(index, {})
        why = state.fatal.get(index)
        if cell["cell_type"] == "code":
            cell["outputs"] = done.get("outputs") or ([_death(why)] if why else [])
        if done.get("timed_out"):
            state.went_wrong.append(f"cell {_name(cell, index)}: no result in time")
        elif done.get("slow"):
            state.went_wrong.append(f"cell {_name(cell, index)}: a call gave no result in time")
        if done.get("needed"):
            told = f"{done['needed']} stays in the student's process; {repair.TAG_IT}"
            state.went_wrong.append(f"cell {_name(cell, index)} failed: {told}")
        if done.get("dropped"):
            dropped = done["dropped"]
            state.went_wrong.append(f"cell {_name(cell, index)}: {dropped} characters cut off")
        if repair.is_graded(cell):
            found.append(_result(cell, done, why))
    return tuple(found)


def _result(cell: reading.Cell, done: dict[str, Any], why: str | None) -> CellResult:
    settings = reading.settings_of(cell)
    most = float(settings.get("points", 0))
    feedback = list(done.get("feedback", []))
    if repair.is_answer(cell):
        feedback.append({"manual": True})
    written = [out["text"] for out in cell.get("outputs", []) if out["output_type"] == "stream"]
    return CellResult(
        grade_id=str(settings.get("grade_id")),
        points=float(done.get("points", 0.0)),
        max_points=most,
        feedback=feedback,
        error=why or done.get("error") or ("not run" if _missed(cell, done) else None),
        output="".join(written),
        needed=str(done.get("needed", "")),
    )


def _missed(cell: reading.Cell, done: dict[str, Any]) -> bool:
    return not done and repair.is_test(cell)


def _death(why: str) -> dict[str, Any]:
    return {"output_type": "error", "ename": "Died", "evalue": why, "traceback": [f"Died: {why}"]}
