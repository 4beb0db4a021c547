"""Messages with a length before them, over a socket, with a bound and a deadline."""

import select
import socket
import struct
import time
from typing import Final

_HEAD: Final = struct.Struct("!I")
# A waiting thread looks up this often (s), so that an exception thrown into it gets through.
_SLICE: Final = 0.02


class ChannelClosed(Exception):
    """The other side is gone, or sent something that is no message."""


class Channel:
    """One end of a connection. ``bound`` is the most bytes of a message that comes in."""

    def __init__(self, connection: socket.socket, bound: int) -> None:
        self._socket = connection
        self._bound = bound
        self._buffer = bytearray()
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        connection.setblocking(True)

    def send(self, data: bytes) -> None:
        """Send a message; `ChannelClosed` if nobody takes it for a while."""
        try:
            self._socket.sendall(_HEAD.pack(len(data)) + data)
        except OSError:
            raise ChannelClosed from None

    def receive(self, seconds: float | None = None) -> bytes:
        """Return the next message; `TimeoutError` if it is not there in time."""
        deadline = None if seconds is None else time.monotonic() + seconds
        (size,) = _HEAD.unpack(self._exactly(_HEAD.size, deadline))
        if size > self._bound:
            raise ChannelClosed
        return self._exactly(size, deadline)

    def _exactly(self, size: int, deadline: float | None) -> bytes:
        while len(self._buffer) < size:
            if deadline is not None:
                self._wait(deadline)
            try:
                part = self._socket.recv(1 << 16)
            except OSError:
                part = b""
            if not part:
                raise ChannelClosed
            self._buffer += part
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _wait(self, deadline: float) -> None:
        while not self._poll.poll(1000 * _SLICE):
            if time.monotonic() > deadline:
                raise TimeoutError
