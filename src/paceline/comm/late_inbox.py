"""A latency where the kernel cannot delay packets: messages are held where they are received.

A thread takes each message off the socket when it arrives and notes that moment; who receives gets
it a latency later. Messages of the same node are not held. Unlike a delay in the network this one
begins when the whole message has arrived, includes what the thread takes, and delays no handshake
and no sign of life.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import os
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final, final

import zmq

from paceline.comm import wire

# How many messages may be held before no more are taken off the socket.
_MOST_HELD: Final = 256
_MOST_PARTS: Final = 2 + wire.num_parts(wire.MOST_BYTES)


@final
class LateInbox:
    """Gives frames as the socket does, each message when it is due. Used by one thread."""

    def __init__(
        self,
        inbox: zmq.Socket[bytes],
        latency_s: float,
        *,
        is_near: Callable[[str], bool],
        timeout_s: float,
    ) -> None:
        """`is_near` says of a sender's name whether nothing lies between it and this seat."""
        self._inbox = inbox
        self._latency_s = latency_s
        self._is_near = is_near
        self._timeout_s = timeout_s
        self._parts: deque[zmq.Frame] = deque()
        self._held: list[tuple[float, int, list[zmq.Frame]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._is_closed = False
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Readable when a message, due or not, has come since `quiet`."""
        self._thread = threading.Thread(target=self._take, name="late-inbox", daemon=True)
        self._thread.start()

    def recv(self, *, copy: bool = False) -> zmq.Frame:
        """Give the next frame of a message that is due; raises `zmq.Again` after a while."""
        assert not copy
        if not self._parts:
            self._parts.extend(self._next_due())
        return self._parts.popleft()

    @property
    def is_due(self) -> bool:
        """Whether `recv` would give a frame at once."""
        with self._changed:
            return bool(self._parts or (self._held and self._held[0][0] <= monotonic()))

    def due_in_ms(self, most_ms: int) -> int:
        """In how many milliseconds a message is due that has come already; at most so many."""
        with self._changed:
            if self._parts:
                return 0
            if not self._held:
                return most_ms
            return min(most_ms, max(0, math.ceil(1000 * (self._held[0][0] - monotonic()))))

    def quiet(self) -> None:
        """Have the bell be silent until the next message comes."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.bell)

    def _next_due(self) -> list[zmq.Frame]:
        deadline_s = monotonic() + self._timeout_s
        with self._changed:
            while True:
                now_s = monotonic()
                if self._held and self._held[0][0] <= now_s:
                    self._changed.notify_all()
                    return heapq.heappop(self._held)[2]
                if now_s >= deadline_s:
                    raise zmq.Again
                until_s = self._held[0][0] if self._held else deadline_s
                self._changed.wait(min(until_s, deadline_s) - now_s)

    def _take(self) -> None:
        while not self._is_closed:
            try:
                parts = self._arrived()
            except zmq.Again:
                continue
            self._hold(parts)

    def _arrived(self) -> list[zmq.Frame]:
        parts: list[zmq.Frame] = [self._inbox.recv(copy=False)]
        while parts[-1].more:
            if len(parts) > _MOST_PARTS:  # whoever reads them sees that there were too many
                parts.pop()
            parts.append(self._inbox.recv(copy=False))
        return parts

    def _hold(self, parts: list[zmq.Frame]) -> None:
        sender = wire.sender_of(parts[0].buffer)
        held_s = 0.0 if sender is not None and self._is_near(sender) else self._latency_s
        with self._changed:
            heapq.heappush(self._held, (monotonic() + held_s, next(self._numbers), parts))
            self._changed.notify_all()
            os.eventfd_write(self.bell, 1)
            while len(self._held) > _MOST_HELD and not self._is_closed:
                self._changed.wait(self._timeout_s)

    def close(self) -> None:
        """End the thread; the socket is its owner's to close. Idempotent."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()
        if self.bell >= 0:
            os.close(self.bell)
            self.bell = -1
