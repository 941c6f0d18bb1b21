"""The line between a seat and the driver: small JSON messages over a socket pair.

It carries the few words that steer a run (joined, start, evaluate, stop, failed) and a status a
few times a second; parameters and gradients never pass here. When either end dies the other
reads end-of-file, so nobody waits for a process that is gone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, final

from paceline.errors import Aborted

Message = dict[str, Any]
MOST_BYTES: Final = 1 << 17
# The kernel takes no more than 253 descriptors with one message.
_MOST_HANDED: Final = 200


class LineClosed(Exception):
    """The process at the other end is gone."""


@final
class Line:
    """One end of a line: a socket that keeps messages apart."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @staticmethod
    def pair() -> tuple[socket.socket, socket.socket]:
        """Make both ends."""
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: str, **fields: Any) -> None:
        """Send one message, waiting for room if there is none."""
        self._send({"kind": kind, **fields}, flags=0)

    def offer(self, kind: str, **fields: Any) -> None:
        """Send a message that may be lost: a reader that does not read must not hold us up."""
        with contextlib.suppress(BlockingIOError):
            self._send({"kind": kind, **fields}, flags=socket.MSG_DONTWAIT)

    def hand_over(self, kind: str, ends: Sequence[socket.socket], **fields: Any) -> None:
        """Send a message, and sockets with it; ours stay open."""
        handed = [each.fileno() for each in ends]
        self._send({"kind": kind, "num_ends": len(ends), **fields}, 0, handed[:_MOST_HANDED])
        for first in range(_MOST_HANDED, len(handed), _MOST_HANDED):
            self._send({"kind": "more"}, 0, handed[first : first + _MOST_HANDED])

    def _send(self, message: Message, flags: int, handed: Sequence[int] = ()) -> None:
        text = json.dumps(message, separators=(",", ":")).encode()
        if len(text) > MOST_BYTES:
            told = f"a message of {len(text):,} bytes, more than the {MOST_BYTES:,} that are read"
            raise OSError(errno.EMSGSIZE, told)
        try:
            if handed:
                socket.send_fds(self._socket, [text], handed, flags)
            else:
                self._socket.send(text, flags)
        except BlockingIOError:
            raise
        except OSError as error:
            raise LineClosed(str(error)) from error

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """Wait for the next message; None when the time is up. Raises `LineClosed` at the end."""
        flags = 0
        if timeout_s is not None:
            if not self._is_readable(timeout_s):
                return None
            flags = socket.MSG_DONTWAIT  # another thread may have been quicker
        try:
            text = self._socket.recv(MOST_BYTES, flags)
        except BlockingIOError:
            return None
        except OSError as error:
            raise LineClosed(str(error)) from error
        if not text:
            raise LineClosed("end of file")
        message: Message = json.loads(text)
        return message

    def _is_readable(self, timeout_s: float) -> bool:
        poller = select.poll()  # select() itself cannot look at descriptors beyond 1023
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(math.ceil(timeout_s * 1000)))

    def take_over(self) -> tuple[Message, list[int]]:
        """Wait for what is handed over; returns the message and its sockets' descriptors."""
        message, taken = self._take_over()
        while len(taken) < message["num_ends"]:
            _, more = self._take_over()
            if not more:
                raise LineClosed("no more files can be opened")
            taken += more
        for descriptor in taken:
            os.set_inheritable(descriptor, False)  # recv_fds of Python 3.11 heeds no flag for it
        return message, taken

    def _take_over(self) -> tuple[Message, list[int]]:
        try:
            text, handed, *_ = socket.recv_fds(self._socket, MOST_BYTES, _MOST_HANDED)
        except OSError as error:
            raise LineClosed(str(error)) from error
        if not text:
            raise LineClosed("end of file")
        return json.loads(text), handed

    def finish(self) -> None:
        """Say nothing more, so that the other end reads end-of-file; it may still be heard."""
        with contextlib.suppress(OSError):  # it is gone already
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


@final
class SeatLine:
    """A seat's end of its line: remembers what the driver said until somebody asks for it.

    Any thread may `poll`; the word that the run cannot go on is then raised in each that does.
    Only one may wait.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._said: deque[Message] = deque()
        self._aborted: str | None = None
        self.stop_wanted = False
        self.finished = False

    def fileno(self) -> int:
        """The descriptor to wait on beside others; call `poll` when it is readable."""
        return self._line.fileno()

    def send(self, kind: str, **fields: Any) -> None:
        """Say something to the driver. Raises `Aborted` when it is gone."""
        try:
            self._line.send(kind, **fields)
        except LineClosed:
            raise Aborted("the driver is gone") from None

    def offer(self, kind: str, **fields: Any) -> None:
        """Say something that may be lost, without ever waiting."""
        try:
            self._line.offer(kind, **fields)
        except LineClosed:
            raise Aborted("the driver is gone") from None

    def close(self) -> None:
        self._line.close()

    def poll(self) -> None:
        """Take note of everything said so far. Raises `Aborted` when the run cannot go on."""
        while self._take(timeout_s=0):
            pass

    def wait(self, *kinds: str) -> Message:
        """Wait until one of the kinds of message has come, and return it."""
        while True:
            for message in self._said:
                if message["kind"] in kinds:
                    self._said.remove(message)
                    return message
            self._take(timeout_s=None)

    def await_abort(self, timeout_s: float) -> None:
        """Wait a while for the word that the run cannot go on; raises it as `Aborted`."""
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            self._take(left_s)

    def listen(self, timeout_s: float) -> Message | None:
        """Give the oldest message that nobody has asked for; None when the time is up."""
        if not self._said:
            self._take(timeout_s)
        return self._said.popleft() if self._said else None

    def _take(self, timeout_s: float | None) -> bool:
        if self._aborted is not None:
            raise Aborted(self._aborted)
        try:
            message = self._line.receive(timeout_s)
        except LineClosed:
            raise Aborted("the driver is gone") from None
        if message is None:
            return False
        if message["kind"] == "abort":
            self._aborted = message["reason"]
            raise Aborted(self._aborted)
        self.stop_wanted |= message["kind"] == "stop"
        self.finished |= message["kind"] == "finish"
        self._said.append(message)
        return True
