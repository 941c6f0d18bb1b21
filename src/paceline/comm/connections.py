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
from collections.abc import Callable
from time import monotonic
from typing import Final, final

import zmq
from zmq.utils.monitor import parse_monitor_message

from paceline.comm import wire
from paceline.comm.credentials import Credentials
from paceline.comm.doorstep import Doorstep
from paceline.comm.gate import Gate
from paceline.comm.roster import Roster
from paceline.errors import PeerLost

# How many messages may wait for a slow receiver before the sender does.
_WAITING_MESSAGES: Final = 16
_FEW_MESSAGES: Final = 2
_LINGER_MS: Final = 1000
# A peer is asked twice a second, and has so long to answer: together with the grace below it is
# named on every seat within five seconds.
_ASK_MS: Final = 500
_ANSWER_MS: Final = 1500
# From a break to the word that the peer is gone. Meanwhile the driver may say why, or that the run
# is over; and a pulse that failed because all of us were suspended for a while is felt again.
_GRACE_S: Final = 1.5
# How long a pulse may take to be felt for the first time. Its handshake, unlike later answers,
# needs the peer's interpreter (`gate.py`), which may be in a long call.
_FIRST_FELT_S: Final = 5.0
# How long somebody who connects may take to show who it is.
_SHOW_MS: Final = 10_000


@final
class Connections:
    """Made and used by one thread. Only who shows credentials of the run is let in."""

    def __init__(
        self,
        name: str,
        roster: Roster,
        *,
        timeout_s: float,
        credentials: Credentials,
        listener: int = -1,
        waits_for_room: bool = True,
    ) -> None:
        self._waits_for_room = waits_for_room
        self._roster = roster
        self._timeout_ms = int(1000 * timeout_s)
        self._credentials = credentials
        self._context = zmq.Context()
        self._gate = Gate(self._context, credentials)
        self._outboxes: dict[str, Outbox] = {}
        self._pulses: dict[str, _Connection] = {}
        self.inbox = self._mailbox(name, listener)
        self._doorstep = Doorstep(
            self.inbox,
            self._address_of(name),
            num_seats=len(roster.addresses),
            stranger_bytes=credentials.stranger_bytes,
        )
        self.inbox.bind(self._address_of(name))

    def _address_of(self, name: str) -> str:
        address = self._roster.by_name[name].address
        assert address is not None, f"{name} has no mailbox"
        return address

    def _mailbox(self, name: str, listener: int) -> zmq.Socket[bytes]:
        made = self._socket(zmq.PULL, name)
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

    def outbox(self, to: str) -> Outbox:
        """Give what sends to a seat; the connection is made when this is first asked for."""
        if to not in self._outboxes:
            self._outboxes[to] = Outbox(to, self._connect(to), drops=not self._waits_for_room)
        return self._outboxes[to]

    def follow(self, roster: Roster) -> None:
        """Reach seats where a newer roster says they are, and let them in by their newer keys.

        Whoever holds an outbox goes on with it. What waits there for an earlier incarnation is
        lost with that one.
        """
        before, self._roster = self._roster, roster
        self._credentials = self._gate.credentials = self._credentials.following(roster)
        for name, outbox in self._outboxes.items():
            sitting = roster.by_name.get(name)
            if sitting == before.by_name.get(name):
                continue
            if (pulse := self._pulses.pop(name, None)) is not None:
                pulse.abandon()
            outbox.use(None if sitting is None else self._connect(name))

    def lost(self) -> str | None:
        """Name a correspondent that was there and is no more."""
        for name, outbox in self._outboxes.items():
            connection = outbox.connection
            if connection is None:
                continue
            if connection.is_broken() or (name in self._pulses and self._pulses[name].is_broken()):
                return name
            if connection.is_made and name not in self._pulses:
                self._feel_pulse(name)
        return None

    def _connect(self, to: str) -> _Connection:
        made = _Connection(self._connecting(to))
        made.socket.connect(self._address_of(to))
        return made

    def _feel_pulse(self, name: str) -> None:
        """Keep asking a peer, which was there a moment ago, whether it still is."""
        made = self._connecting(name)
        made.setsockopt(zmq.HEARTBEAT_IVL, _ASK_MS)
        made.setsockopt(zmq.HEARTBEAT_TIMEOUT, _ANSWER_MS)
        made.setsockopt(zmq.HANDSHAKE_IVL, _ANSWER_MS)
        self._pulses[name] = _Connection(made, is_pulse=True)
        made.connect(self._address_of(name))

    def _connecting(self, to: str) -> zmq.Socket[bytes]:
        made = self._socket(zmq.PUSH, to)
        if not self._waits_for_room:
            made.setsockopt(zmq.SNDHWM, 0)
        self._credentials.show(made, to)
        return made

    def _socket(self, kind: int, name: str) -> zmq.Socket[bytes]:
        """Make one for the mailbox of a seat, whichever end of it."""
        made = self._context.socket(kind)
        made.setsockopt(zmq.IPV6, int("[" in self._address_of(name)))
        made.set_hwm(_WAITING_MESSAGES)
        made.setsockopt(zmq.LINGER, _LINGER_MS)
        made.setsockopt(zmq.SNDTIMEO, self._timeout_ms)
        made.setsockopt(zmq.RCVTIMEO, self._timeout_ms)
        return made

    def close(self) -> None:
        """Close all; what was sent still arrives, if it does so soon. Idempotent."""
        if self.inbox.closed:
            return
        for outbox in self._outboxes.values():
            outbox.close()
        for pulse in self._pulses.values():
            pulse.close()
        self._doorstep.close()
        self.inbox.close()
        self._context.term()  # the gate closes its own end


@final
class Outbox:
    """What sends to one seat, whichever incarnation of it is there."""

    send: Callable[..., object]
    """As a socket's."""
    send_multipart: Callable[..., object]

    def __init__(self, to: str, connection: _Connection, *, drops: bool = False) -> None:
        """`drops`: what is sent to a seat that has left is dropped, and no error."""
        self._to = to
        self._drops = drops
        self.connection: _Connection | None = None
        self.use(connection)

    def use(self, connection: _Connection | None) -> None:
        """Send by another connection from now on; None: the seat is not there any more."""
        self.close(abandon=True)
        self.connection = connection
        if connection is None:
            self.send = self.send_multipart = self._refuse
        else:
            self.send = connection.socket.send
            self.send_multipart = connection.socket.send_multipart

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """What to wait on for room."""
        if self.connection is None:
            raise PeerLost(self._to, "it has left the run")
        return self.connection.socket

    def keep_short(self) -> None:
        """Have no more than a few messages wait here from now on."""
        if self.connection is not None and not self.connection.is_short:
            self.connection.is_short = True
            self.connection.socket.setsockopt(zmq.SNDHWM, _FEW_MESSAGES)

    def _refuse(self, *_: object, **__: object) -> None:
        if not self._drops:
            raise PeerLost(self._to, "it has left the run")

    def close(self, *, abandon: bool = False) -> None:
        if self.connection is None:
            return
        if abandon:
            self.connection.abandon()
        else:
            self.connection.close()


@final
class _Connection:
    """A socket that is connected to a peer, and what ZeroMQ tells of the connection.

    A pulse is made to a peer that was there a moment ago, and ZeroMQ tries again when it fails. So
    it counts as broken until it is felt: a host may vanish in that very moment, and then nothing
    breaks.
    """

    def __init__(self, made: zmq.Socket[bytes], *, is_pulse: bool = False) -> None:
        self.socket = made
        self.is_made = is_pulse
        self.is_short = False
        self._can_heal = is_pulse
        self._broke_s = monotonic() + _FIRST_FELT_S - _GRACE_S if is_pulse else None
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

    def abandon(self) -> None:
        """Close it; what has not been sent will not be."""
        self.socket.setsockopt(zmq.LINGER, 0)
        self.close()

    def close(self) -> None:
        self.socket.disable_monitor()
        self._monitor.close()
        self.socket.close()
