"""Pipeline actions and their text, inverses of each other: ``2F0``, ``(0F3;3B1)OVERLAP_F_B``.

Source: the text form of PyTorch's `torch.distributed.pipelining`.
"""

import re
from typing import Final, NamedTuple

from shardbook.errors import InputError

FORWARD: Final = "F"
BACKWARD: Final = "B"
BACKWARD_INPUT: Final = "I"
BACKWARD_WEIGHT: Final = "W"
OVERLAP: Final = "OVERLAP_F_B"

#: actions of one micro-batch that compute
COMPUTING: Final = (FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT)
#: transfers of one micro-batch between stages
TRANSFERS: Final = ("SEND_F", "RECV_F", "SEND_B", "RECV_B")
#: actions of a whole stage
BOOKKEEPING: Final = ("UNSHARD", "RESHARD", "REDUCE_GRAD")

_INDEX: Final = r"(0|[1-9]\d{0,8})"
_OF_MICRO_BATCH: Final = re.compile(
    f"{_INDEX}({'|'.join(COMPUTING + TRANSFERS)}){_INDEX}", re.ASCII
)
_OF_STAGE: Final = re.compile(f"{_INDEX}({'|'.join(BOOKKEEPING)})", re.ASCII)
_ALLOWED: Final = "give stage, kind and micro-batch, such as 2F0, 1B3, 0I2, 0W2 or (0F3;3B1)" + (
    OVERLAP
)
#: what stands for an idle slot in a written schedule
_IDLE: Final = ("", "-", ".", "null", "None")


class PipelineAction(NamedTuple):
    """``kind`` of work of ``stage`` on ``micro_batch``; ``parts`` if two are overlapped."""

    stage: int
    kind: str
    micro_batch: int | None = None
    parts: tuple["PipelineAction", ...] = ()

    def __str__(self) -> str:
        if self.parts:
            return f"({';'.join(map(str, self.parts))}){self.kind}"
        return f"{self.stage}{self.kind}{'' if self.micro_batch is None else self.micro_batch}"

    def __repr__(self) -> str:
        return str(self)

    @property
    def steps(self) -> tuple["PipelineAction", ...]:
        """What runs, one after the other: the parts, or the action itself."""
        return self.parts or (self,)


#: what each rank does, in order
Order = tuple[tuple[PipelineAction, ...], ...]


def overlapped(forward: PipelineAction, backward: PipelineAction) -> PipelineAction:
    """A forward and a backward of one rank that run together (its stage is the forward's)."""
    return PipelineAction(forward.stage, OVERLAP, None, (forward, backward))


def parse_action(text: str) -> PipelineAction:
    """Read one action; the inverse of `str`. Raises `InputError`."""
    if match := _OF_MICRO_BATCH.fullmatch(text):
        return PipelineAction(int(match[1]), match[2], int(match[3]))
    if match := _OF_STAGE.fullmatch(text):
        return PipelineAction(int(match[1]), match[2])
    if text.startswith("(") and text.endswith(f"){OVERLAP}"):
        parts = [parse_action(part) for part in text[1 : -len(OVERLAP) - 1].split(";")]
        if [part.kind for part in parts] == [FORWARD, BACKWARD]:
            return overlapped(*parts)
    raise InputError("action", text, _ALLOWED)


def parse_order(text: str) -> Order:
    """Read a schedule: a line a rank, actions apart by spaces or commas, idle slots left out."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError("schedule", text, "give a line of actions for each rank")
    return tuple(
        tuple(parse_action(word) for word in re.split(r"[\s,]+", line) if word not in _IDLE)
        for line in lines
    )


def format_order(order: Order) -> str:
    """Write a schedule, a line a rank; `parse_order` reads it."""
    return "\n".join(" ".join(map(str, row)) or "-" for row in order)
