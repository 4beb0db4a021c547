"""Do what the other end of a conversation asks, and write the reply."""

from __future__ import annotations

import marshal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from .errors import describe, is_interrupted
from .handles import OPERATIONS, open_to_student
from .objects import Objects
from .wire import WireError, pack

#: the operation of `Peer.call_each`, and when it is enough for one reply (s, B)
EACH: Final = "each"
_EACH_SECONDS: Final = 0.25
_EACH_BYTES: Final = 1 << 20


class Answers:
    """Answers requests about ``objects``; see `Peer` for the rest."""

    def __init__(
        self,
        objects: Objects,
        guarded: str | None,
        printed: Callable[[], tuple[str, str]],
        running: Callable[[bool], None],
    ) -> None:
        self._objects = objects
        self._guarded = guarded
        self._printed = printed
        self._running = running

    def answer(self, message: dict[str, Any]) -> bytes:
        """Do what is asked, and write the reply."""
        if message["op"] == EACH and not self._guarded:
            return self._answer_each(message)
        reply = self._perform(message)
        out, err = self._printed()
        if out or err:
            reply |= {"p": out, "e": err}
        return self._packed(reply)

    def _answer_each(self, message: dict[str, Any]) -> bytes:
        replies: list[bytes] = []
        until = time.monotonic() + _EACH_SECONDS
        for arguments in message["a"]:
            reply = self._perform({"on": message["on"], "op": "call", "a": arguments, "k": {}})
            replies.append(self._packed(reply))
            enough = time.monotonic() > until or sum(map(len, replies)) > _EACH_BYTES
            if enough or was_interrupted(reply):
                break
        self._printed()  # what they print is nobody's
        return b'{"r":[' + b",".join(replies) + b"]}"

    def _perform(self, message: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = {}
        given: list[tuple[str, Any, Any]] = []
        try:
            try:
                args = [self._objects.decode(item) for item in message["a"]]
                kwargs = {name: self._objects.decode(item) for name, item in message["k"].items()}
                thing, operation = self._objects[message["on"]], message["op"]
                if self._guarded and not open_to_student(thing, operation, args, self._guarded):
                    raise PermissionError("that is not open to a submission")
                given = [
                    (place, value, sent)
                    for place, value, sent in (
                        *((str(i), v, message["a"][i]) for i, v in enumerate(args)),
                        *((name, v, message["k"][name]) for name, v in kwargs.items()),
                    )
                    if isinstance(value, (list, dict, set, bytearray, tuple)) or is_array(value)
                ]
                self._running(True)
                try:
                    value = OPERATIONS[operation](thing, *args, **kwargs)
                finally:
                    self._running(False)
                reply["r"] = self._objects.encode(value)
            finally:
                self._running(False)
        except BaseException as error:
            reply = {"x": describe(error, self._objects.reference)}
        changes = {}
        for place, value, sent in given:
            try:
                now = self._objects.encode(value)
                # Bytes differ where values only seem equal, as 1 and True do.
                if marshal.dumps(now, 2) != marshal.dumps(sent, 2):
                    changes[place] = now
            except Exception:  # it can't cross any more
                continue
        if changes:
            reply["m"] = changes
        return reply

    def _packed(self, reply: dict[str, Any]) -> bytes:
        try:
            return pack(reply)
        except Exception as error:
            return pack({"x": describe(WireError(str(error)[:200]), self._objects.reference)})


def was_interrupted(reply: Any) -> bool:
    """Whether a reply says that the call ran out of time."""
    return isinstance(reply, dict) and is_interrupted(reply.get("x"))


def is_array(value: Any) -> bool:
    """Whether this is numpy's array; numpy is not imported for it."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)
