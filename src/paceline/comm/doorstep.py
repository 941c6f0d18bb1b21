"""What happens before a mailbox: who comes, who is turned away, and who is taking up room.

ZeroMQ tells of it through a pipe of events, and its thread, which carries all messages of the seat,
waits when that pipe is full. So a thread of ours empties it. ZeroMQ also has no limit for
connections that were accepted and have not shown who they are: each takes a file and some memory.
Beyond a number of them the oldest are closed.
"""

from __future__ import annotations

import socket
import struct
import threading
from typing import Final, final

import zmq

from paceline.system.descriptors import held_socket

_EVENT: Final = struct.Struct("=Hi")
# ZeroMQ has events for handshakes that fail, but not for all that do.
_WATCHED: Final = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_ACCEPT_FAILED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_MONITOR_STOPPED
)
# Events that may wait for our thread, which other threads of this process may hold up.
_WAITING_EVENTS: Final = 20_000
# Fewer would close those who have only just come, where many seats start at once.
_LEAST_WAITING: Final = 32
# Where Linux keeps how many bytes a peer has acknowledged in what it tells of a TCP connection.
_ACKNOWLEDGED: Final = struct.Struct("=Q")
_ACKNOWLEDGED_AT: Final = 120
_PATIENCE_S: Final = 5.0


@final
class Doorstep:
    """Watches a mailbox in a thread of its own, from before it is bound until it is closed."""

    def __init__(
        self, mailbox: zmq.Socket[bytes], address: str, *, num_seats: int, stranger_bytes: int
    ) -> None:
        """Those who were sent no more than `stranger_bytes` have not been let in yet."""
        self.num_turned_away = 0
        self._mailbox = mailbox
        self._stranger_bytes = stranger_bytes
        # Each seat has a connection and a pulse.
        self._most_waiting = max(_LEAST_WAITING, 2 * num_seats)
        self._is_tcp = address.startswith("tcp:")
        self._port = int(address.rpartition(":")[2]) if self._is_tcp else 0
        self._waiting: dict[int, None] = {}
        self._open: dict[int, bool] = {}
        """Connections by their descriptors, and whether each may have been let in."""
        self._num_let_in = 0
        told_at = f"inproc://doorstep-{id(self)}"
        mailbox.monitor(told_at, _WATCHED)
        self._events = mailbox.context.socket(zmq.PAIR)
        self._events.setsockopt(zmq.RCVHWM, _WAITING_EVENTS)
        self._events.setsockopt(zmq.LINGER, 0)
        self._events.connect(told_at)
        self._thread = threading.Thread(target=self._watch, name="doorstep", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        """Hear of everyone who comes, until the mailbox is closed."""
        try:
            while self._hear(*_EVENT.unpack(self._events.recv_multipart()[0])):
                pass
        except zmq.ContextTerminated:
            pass
        self._events.close()

    def _hear(self, event: int, value: int) -> bool:
        """Take note of an event; False: it is the last."""
        if event == zmq.EVENT_ACCEPTED:
            self._come(value)
        elif event == zmq.EVENT_DISCONNECTED:
            self._leave(value)
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            # It does not say whose; it is one of these. So a few strangers may go uncounted.
            self._open = dict.fromkeys(self._open, True)
            self._num_let_in += 1
        elif event == zmq.EVENT_ACCEPT_FAILED:
            self.num_turned_away += 1
        return event != zmq.EVENT_MONITOR_STOPPED

    def _come(self, descriptor: int) -> None:
        self._open[descriptor] = False
        if self._is_tcp:
            self._waiting[descriptor] = None
            self._make_room()

    def _leave(self, descriptor: int) -> None:
        self._waiting.pop(descriptor, None)
        if self._open.pop(descriptor, False) and self._num_let_in:
            self._num_let_in -= 1
        else:
            self.num_turned_away += 1

    def _make_room(self) -> None:
        """Close connections that have been waiting the longest, where there are too many."""
        while len(self._waiting) > self._most_waiting:
            descriptor = next(iter(self._waiting))
            del self._waiting[descriptor]
            self._close_if_stranger(descriptor)

    def _close_if_stranger(self, descriptor: int) -> None:
        """Hang up on who has not been let in; ZeroMQ notices, and tells of it as of any other.

        What is looked at is held first: meanwhile the number may come to mean something else.
        """
        try:
            with held_socket(descriptor) as held:
                if self._is_stranger(held):
                    held.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is gone already, or the number is of no connection now

    def _is_stranger(self, held: socket.socket) -> bool:
        if held.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        if held.getsockname()[1] != self._port:
            return False
        told = held.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        (acknowledged,) = _ACKNOWLEDGED.unpack_from(told, _ACKNOWLEDGED_AT)
        return bool(acknowledged <= self._stranger_bytes)

    def close(self) -> None:
        """Hear what there still is, and no more."""
        self._mailbox.disable_monitor()
        self._thread.join(_PATIENCE_S)
