"""What a cell shows, as nbformat has it: of a submission's process, and of the tests here."""

import traceback
from dataclasses import asdict
from typing import Any, Final

from shardgrade.checks import judging
from shardgrade.sandbox.wire import WireError

#: the name under which a test cell's code is compiled
TEST_CELL: Final = "<test cell>"
#: the longest text of an error or a value
LONGEST: Final = 500
_KINDS: Final = ("stream", "display_data", "execute_result", "error")


def clean(output: Any) -> dict[str, Any]:
    """An output that nbformat takes, whatever the submission's process said."""
    kind = output["output_type"]
    if kind == "stream":
        name = "stderr" if output["name"] == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": str(output["text"])}
    if kind == "error":
        lines = [str(line) for line in list(output["traceback"])[:100]]
        name, text = str(output["ename"]), str(output["evalue"])
        return {"output_type": "error", "ename": name, "evalue": text, "traceback": lines}
    if kind not in _KINDS:
        raise WireError("an output of an unknown kind")
    data = {str(mime): str(text) for mime, text in dict(output["data"]).items()}
    made: dict[str, Any] = {"output_type": kind, "data": data, "metadata": {}}
    return made | ({"execution_count": None} if kind == "execute_result" else {})


def error_output(error: BaseException) -> dict[str, Any]:
    """An exception of a test cell, with the lines of the cell that it went through."""
    name = type(error).__name__
    text = say(error)
    lines = [f"{name}: {text}"]
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed([frame for frame in frames if frame.filename == TEST_CELL]):
        lines.insert(0, f"  line {frame.lineno} of this cell")
    return {"output_type": "error", "ename": name, "evalue": text, "traceback": lines}


def say(error: BaseException) -> str:
    """The text of an exception, which may itself fail."""
    try:
        return str(error)[:LONGEST]
    except BaseException:
        return ""


def represent(value: Any) -> str:
    """The printed form of a value, which may itself fail."""
    try:
        return repr(value)[:LONGEST]
    except BaseException:
        return "…"


def feedback(assessment: judging.Assessment) -> list[dict[str, Any]]:
    """The verdicts of one judging, for the result."""
    return [
        {
            "task": assessment.task.id,
            "criterion": verdict.criterion.name,
            "points": verdict.points,
            "of": verdict.criterion.points,
            "fault": asdict(verdict.fault) if verdict.fault else None,
            "hint": verdict.hint,
        }
        for verdict in assessment.verdicts
    ]
