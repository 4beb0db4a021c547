"""The conversation of two processes about objects: requests go there, values come back.

See [Note: what a stand-in may do] in `handles`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from .answering import EACH, Answers, is_array, was_interrupted
from .channel import Channel, ChannelClosed
from .errors import Interrupted, PeerLost, TimeIsUp, no_reference
from .handles import Handle
from .objects import Objects
from .wire import WireError, encode, pack, unpack

_GRACE: Final = 0.15


class Peer:
    """One end of the conversation; both ends may ask, strictly nested.

    ``guarded`` is the name of the check's namespace; without it (the student's side) every request
    is answered. ``printed`` returns what was written since it was last asked.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        guarded: str | None = None,
        printed: Callable[[], tuple[str, str]] = lambda: ("", ""),
        interrupt: Callable[[], None] = lambda: None,
        running: Callable[[bool], None] = lambda state: None,
    ) -> None:
        self._channel = channel
        self._interrupt = interrupt
        self._lock = threading.RLock()
        #: what crosses as a reference
        self.objects = Objects(self)
        self._answers = Answers(self.objects, guarded, printed, running)
        #: when requests end (`time.monotonic`)
        self.deadline: float | None = None
        #: why the other side can't be asked any more
        self.lost: str | None = None
        self.timed_out = False
        self.slow = False

    def export(self, number: int, thing: Any) -> None:
        """Offer ``thing`` under a number that the other side knows."""
        self.objects.export(number, thing)

    def handle(self, number: int, *, lineage: bool = False) -> Handle:
        """A stand-in for the other side's object of that number."""
        return Handle(self, number, lineage)

    # Asking.

    def request(
        self, number: int, operation: str, args: Any, kwargs: Any, lineage: bool = False
    ) -> Any:
        """Have the other side do something; returns its value or raises its exception.

        Arguments that it changed are changed here too; what it printed is printed here.
        """
        with self._lock:
            reply = self._exchange(number, operation, args, kwargs)
            for text, stream in ((reply.get("p"), sys.stdout), (reply.get("e"), sys.stderr)):
                if isinstance(text, str) and text:
                    stream.write(text)
            for place, changed in self._changes(reply).items():
                _write_back(args[int(place)] if place.isdigit() else kwargs[place], changed)
            return self._result(reply, lineage)

    def call_within(
        self, seconds: float, number: int, args: tuple[Any, ...]
    ) -> tuple[Any, tuple[Any, ...]]:
        """Call a function for at most so long; returns its value, and the arguments afterwards.

        The arguments here stay as they are, and what it printed is dropped. Running out of time
        counts as `slow` and not as `timed_out`.
        """
        with self._within(seconds):
            return self.read(self._exchange(number, "call", args, {}), args)

    def call_each(
        self, seconds: float, number: int, cases: Sequence[str]
    ) -> tuple[list[Any], bool]:
        """Call a function on the first of these cases, in one message there and one back.

        ``cases`` are the arguments of each call as `packed` wrote them. Returns the replies, for
        `read`, of as many as were done in good time, and whether the one after them was interrupted,
        ``seconds`` after the first began.
        """
        text = f'{{"on":{number},"op":"{EACH}","a":[{",".join(cases)}]}}'
        slow = self.slow
        with self._within(seconds):
            try:
                reply = self._ask(text.encode())
            except TimeIsUp as late:
                reply = late.reply or {}
        replies = reply.get("r")
        if not isinstance(replies, list) or len(replies) > len(cases):
            raise WireError("not readable")
        interrupted = bool(replies) and was_interrupted(replies[-1])
        if interrupted:  # one behind others had less time: it will be seen alone
            self.slow = slow or len(replies) == 1
        return (replies[:-1] if interrupted else replies), interrupted

    def read(self, reply: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """The value of a call that was replied to, and its arguments afterwards; or raise."""
        if not isinstance(reply, dict):
            raise WireError("not readable")
        after = list(args)
        for place, changed in self._changes(reply).items():
            after[int(place)] = changed
        return self._result(reply, lineage=False), tuple(after) if "m" in reply else args

    @contextlib.contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        with self._lock:
            kept = self.deadline, self.timed_out
            mine = time.monotonic() + seconds
            self.deadline = mine if self.deadline is None else min(mine, self.deadline)
            try:
                yield
            finally:
                self.slow |= self.timed_out
                self.deadline, self.timed_out = kept

    def _changes(self, reply: dict[str, Any]) -> dict[str, Any]:
        changes = reply.get("m") or {}
        if not isinstance(changes, dict):
            raise WireError("not readable")
        return {place: self.objects.decode(data) for place, data in changes.items()}

    def _result(self, reply: dict[str, Any], lineage: bool) -> Any:
        error = reply.get("x")
        if error is not None:
            described = error if isinstance(error, dict) else {}
            raised = self.objects.exceptions.rebuilt(described, self.objects.decode)
            self.timed_out |= isinstance(raised, TimeIsUp)
            raise raised
        return self.objects.decode(reply.get("r"), lineage=lineage)

    def _exchange(self, number: int, operation: str, args: Any, kwargs: Any) -> dict[str, Any]:
        if self.lost:
            raise PeerLost(self.lost)
        message = {
            "on": number,
            "op": operation,
            "a": [self.objects.encode(item) for item in args],
            "k": {name: self.objects.encode(item) for name, item in kwargs.items()},
        }
        return self._ask(pack(message))

    def _ask(self, data: bytes) -> dict[str, Any]:
        if self.lost:
            raise PeerLost(self.lost)
        try:
            self._channel.send(data)
            return self._await_reply()
        except TimeoutError:
            self.timed_out = True
            late = TimeIsUp("no result in time")
            late.reply = self._stop_other()
            raise late from None
        except ChannelClosed:
            self.lost = self.lost or "the process died"
            raise PeerLost(self.lost) from None
        except (PeerLost, WireError):
            raise
        except BaseException:  # thrown into this thread by whoever waits for it
            self._stop_other()
            raise

    def _await_reply(self, seconds: float | None = None) -> dict[str, Any]:
        while True:
            if seconds is None and self.deadline is not None:
                left: float | None = max(0.0, self.deadline - time.monotonic())
            else:
                left = seconds
            message = unpack(self._channel.receive(left))
            if not isinstance(message, dict):
                raise WireError("not readable")
            if "op" not in message:
                return message
            self._channel.send(self._answers.answer(message))

    def _stop_other(self) -> dict[str, Any] | None:
        until = time.monotonic() + _GRACE
        self._interrupt()
        while time.monotonic() < until:
            try:
                return self._await_reply(max(0.0, until - time.monotonic()))
            except ChannelClosed:
                self.lost = "the process died"
                return None
            except BaseException:  # thrown in again
                continue
        self.lost = "the process hung"
        return None

    # Answering.

    def serve(self) -> None:
        """Answer until the other side is gone."""
        while True:
            try:
                message = unpack(self._channel.receive())
                self._channel.send(self._answers.answer(message))
            except ChannelClosed:
                return
            except Interrupted:  # came a moment too late
                continue


def packed(arguments: Sequence[Any]) -> str:
    """The arguments of one call, for `Peer.call_each`.

    Raises:
        WireError: they are not all plain data.
    """
    return pack([encode(item, no_reference) for item in arguments]).decode()


def _write_back(old: Any, new: Any) -> None:
    if (isinstance(old, list) and isinstance(new, list)) or (
        isinstance(old, bytearray) and isinstance(new, bytearray)
    ):
        old[:] = new
    elif isinstance(old, (dict, set)) and type(new) in (dict, set):
        old.clear()
        old.update(new)
    elif isinstance(old, tuple) and isinstance(new, tuple):
        for before, after in zip(old, new, strict=False):
            _write_back(before, after)
    elif is_array(old) and is_array(new) and old.shape == new.shape:
        old[...] = new
