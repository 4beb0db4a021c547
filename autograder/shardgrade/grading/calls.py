"""`Calls` of a student's function that lives in the other process.

[Note: many calls in one message] A round trip costs more than most calls. So the cases of a probe,
the same for every submission, are written down once, and go there together; the replies come back
together, and are read one by one, as far as the judge asks. That a case comes after a failed one, and
is called nevertheless, must cost nothing: what is interrupted in such a row is called again alone, if
it comes to that, and the row's time does not count.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from shardbook.labs.calls import Calls, Outcome, describe_error
from shardbook.labs.calls import _changed as find_changed
from shardbook.labs.values import Fault, plain
from shardgrade.checks import judging
from shardgrade.sandbox.errors import TimeIsUp
from shardgrade.sandbox.handles import Handle
from shardgrade.sandbox.remote import Peer, packed
from shardgrade.sandbox.wire import WireError

_Arguments = tuple[Any, ...]

#: identity of a probe's cases (which live as long as this process) → what is sent for them
_written: Final[dict[int, tuple[str, ...]]] = {}


def write_down(planned: judging.Planned) -> None:
    """Write the cases of a probe once, before the check's processes are forked."""
    try:
        _written[id(planned.cases)] = tuple(packed(case) for case in planned.cases)
    except WireError:  # functions or objects among them: one by one then
        return


class RemoteCalls(Calls):
    """The other process has the copies and keeps the time."""

    _alone = False

    def call(self, function: Any, arguments: _Arguments) -> Outcome:
        """Call ``function``; never raises for what it does."""
        if not isinstance(function, Handle):
            return super().call(function, arguments)
        limit = min(self._each, self._left)
        if limit <= 0:
            return Outcome(None, Fault("the call", "a result in time", "no time left"))
        began = time.monotonic()
        try:
            work = partial(function._peer.call_within, limit, function._id, arguments)
            return _outcome(limit, arguments, work)
        finally:
            self._left -= time.monotonic() - began

    def each(self, function: Any, cases: Sequence[_Arguments]) -> Iterator[Outcome]:
        """Call ``function`` on the cases in order; see [Note: many calls in one message]."""
        texts = _written.get(id(cases))
        if texts is None or not isinstance(function, Handle):
            yield from super().each(function, cases)
            return
        peer, done = function._peer, 0
        while done < len(cases):
            replies, late = self._row(peer, function._id, texts[done:])
            for reply in replies:
                yield _outcome(self._each, cases[done], partial(peer.read, reply, cases[done]))
                done += 1
            if late is not None:
                yield late
                done += 1
            elif not replies:
                yield self.call(function, cases[done])
                done += 1

    def _row(
        self, peer: Peer, number: int, texts: Sequence[str]
    ) -> tuple[list[Any], Outcome | None]:
        """The replies to the first calls, and what is known of the one after them."""
        limit = min(self._each, self._left)
        if self._alone or limit <= 0:
            return [], None
        began = time.monotonic()
        try:
            replies, interrupted = peer.call_each(limit, number, texts)
        except BaseException:  # alone, it will be told which call it was
            self._alone = True
            return [], None
        if interrupted and replies:
            self._alone = True
            return replies, None
        self._left -= time.monotonic() - began
        return replies, _late(limit) if interrupted else None


def _late(limit: float) -> Outcome:
    return Outcome(None, Fault("the call", "a result in time", f"none in {limit:.1f} s"))


def _outcome(
    limit: float, arguments: _Arguments, work: Callable[[], tuple[Any, _Arguments]]
) -> Outcome:
    try:
        value, after = work()
        changed = None if after is arguments else find_changed(arguments, after)
        return Outcome(plain(value), changed=changed)
    except NotImplementedError:
        return Outcome(None, Fault("the answer", "your code", "the stub"), unanswered=True)
    except TimeIsUp:
        return _late(limit)
    except BaseException as error:
        return Outcome(None, Fault("the call", "a result", describe_error(error)))
