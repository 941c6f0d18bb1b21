"""The ZeroMQ sockets of one seat: its mailbox, its connections, and what watches over them.

ZeroMQ connects again by itself when a connection breaks, and says nothing: what was on its way is
lost, and whoever waits for an answer waits for ever. So every connection is watched, and one that
was there and breaks is a peer that is gone. A host that vanishes breaks nothing; it falls silent.
For that there is a second connection beside each, the pulse, which carries only ZeroMQ's own
questions whether the other is there, and so cannot be held up by data. They are asked and answered
by ZeroMQ's threads, however long a step takes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from time import monotonic
from typing import Final, final

import zmq
from zmq.utils.monitor import parse_monitor_message

from paceline.comm import wire
from paceline.comm.credentials import Credentials
from paceline.comm.doorstep import Doorstep
from paceline.comm.gate import Gate

# How many messages may wait for a slow receiver before the sender does.
_WAITING_MESSAGES: Final = 16
_LINGER_MS: Final = 1000
# A peer is asked twice a second, and has so long to answer: together with the grace below it is
# named on every seat within five seconds.
_ASK_MS: Final = 500
_ANSWER_MS: Final = 1500
# From a break to the word that the peer is gone. Meanwhile the driver may say why, or that the run
# is over; and a pulse that failed because all of us were suspended for a while is felt again.
_GRACE_S: Final = 1.5
# How long somebody who connects may take to show who it is.
_SHOW_MS: Final = 10_000


@final
class Connections:
    """Made and used by one thread. Only who shows credentials of the run is let in."""

    def __init__(
        self,
        name: str,
        addresses: Mapping[str, str],
        *,
        timeout_s: float,
        credentials: Credentials,
        listener: int = -1,
        waits_for_room: bool = True,
    ) -> None:
        self._waits_for_room = waits_for_room
        self._addresses = addresses
        self._timeout_ms = int(1000 * timeout_s)
        self._credentials = credentials
        self._context = zmq.Context()
        Gate(self._context, credentials)
        self._outboxes: dict[str, _Connection] = {}
        self._pulses: dict[str, _Connection] = {}
        self.inbox = self._mailbox(listener)
        self._doorstep = Doorstep(
            self.inbox,
            addresses[name],
            num_seats=len(addresses),
            stranger_bytes=credentials.stranger_bytes,
        )
        self.inbox.bind(addresses[name])

    def _mailbox(self, listener: int) -> zmq.Socket[bytes]:
        made = self._socket(zmq.PULL)
        # A stranger may send this much before he has shown anything: ZeroMQ has one limit for all.
        made.setsockopt(zmq.MAXMSGSIZE, wire.MOST_PART_BYTES)
        made.setsockopt(zmq.HANDSHAKE_IVL, _SHOW_MS)
        made.setsockopt(zmq.USE_FD, listener)
        with contextlib.suppress(zmq.ZMQError):  # it is built without where the system has none
            # Other users of this machine do not even get in front of the gate of a Unix socket.
            made.setsockopt(zmq.IPC_FILTER_UID, os.geteuid())
        self._credentials.guard(made)
        return made

    @property
    def num_turned_away(self) -> int:
        """How many times a peer did not get as far as sending messages."""
        return self._doorstep.num_turned_away

    def outbox(self, to: str) -> zmq.Socket[bytes]:
        """Give the connection to a seat; made when it is first asked for."""
        if to not in self._outboxes:
            self._outboxes[to] = _Connection(self._connecting(to))
            self._outboxes[to].socket.connect(self._addresses[to])
        return self._outboxes[to].socket

    def lost(self) -> str | None:
        """Name a correspondent that was there and is no more."""
        for name, outbox in self._outboxes.items():
            if outbox.is_broken() or (name in self._pulses and self._pulses[name].is_broken()):
                return name
            if outbox.is_made and name not in self._pulses:
                self._feel_pulse(name)
        return None

    def _feel_pulse(self, name: str) -> None:
        """Keep asking a peer, which was there a moment ago, whether it still is."""
        made = self._connecting(name)
        made.setsockopt(zmq.HEARTBEAT_IVL, _ASK_MS)
        made.setsockopt(zmq.HEARTBEAT_TIMEOUT, _ANSWER_MS)
        made.setsockopt(zmq.HANDSHAKE_IVL, _ANSWER_MS)
        self._pulses[name] = _Connection(made, is_made=True, can_heal=True)
        made.connect(self._addresses[name])

    def _connecting(self, to: str) -> zmq.Socket[bytes]:
        made = self._socket(zmq.PUSH)
        if not self._waits_for_room:
            made.setsockopt(zmq.SNDHWM, 0)
        self._credentials.show(made, to)
        return made

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        made = self._context.socket(kind)
        made.set_hwm(_WAITING_MESSAGES)
        made.setsockopt(zmq.LINGER, _LINGER_MS)
        made.setsockopt(zmq.SNDTIMEO, self._timeout_ms)
        made.setsockopt(zmq.RCVTIMEO, self._timeout_ms)
        return made

    def close(self) -> None:
        """Close all; what was sent still arrives, if it does so soon. Idempotent."""
        if self.inbox.closed:
            return
        for each in (*self._outboxes.values(), *self._pulses.values()):
            each.close()
        self._doorstep.close()
        self.inbox.close()
        self._context.term()  # the gate closes its own end


@final
class _Connection:
    """A socket that is connected to a peer, and what ZeroMQ tells of the connection."""

    def __init__(
        self, made: zmq.Socket[bytes], *, is_made: bool = False, can_heal: bool = False
    ) -> None:
        self.socket = made
        self.is_made = is_made
        self._can_heal = can_heal
        self._broke_s: float | None = None
        self._monitor = made.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        )

    def is_broken(self) -> bool:
        """Whether it was made, and then broke, a while ago."""
        while self._monitor.poll(0):
            event = parse_monitor_message(self._monitor.recv_multipart())["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.is_made = True
                self._broke_s = None if self._can_heal else self._broke_s
            elif self.is_made and self._broke_s is None:
                self._broke_s = monotonic()
        return self._broke_s is not None and monotonic() - self._broke_s >= _GRACE_S

    def close(self) -> None:
        self.socket.disable_monitor()
        self._monitor.close()
        self.socket.close()
