"""A channel between processes, over ZeroMQ: one mailbox a seat, one connection a correspondent.

A step of a small model sends and receives thousands of times a second, in processes that share
their cores and caches, where every call into torch costs ten microseconds. So the way of a small
message goes through plain memory, and what can be prepared is prepared once.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, final

import zmq

from paceline.comm import wire
from paceline.comm.base import SMALL_BYTES, Channel, Finished, Message, Parcel, bytes_of
from paceline.comm.complaints import Complaints
from paceline.comm.connections import Connections
from paceline.comm.credentials import Credentials
from paceline.comm.late_inbox import LateInbox
from paceline.comm.roster import Roster
from paceline.comm.seat_line import SeatLine
from paceline.errors import PeerLost, WireError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_log = logging.getLogger(__name__)

# How often a seat looks at its line to the driver: not with every message, which would cost as
# much as receiving one, and not so seldom that the end of a run waits for it.
_LOOK_S: Final = 0.05
_LOOK_MS: Final = 50
_MOST_PARTS: Final = wire.num_parts(wire.MOST_BYTES)


@final
class ZmqChannel(Channel):
    """A mailbox bound at this seat's address; others are connected to when first written to."""

    def __init__(
        self,
        name: str,
        roster: Roster,
        run: bytes,
        line: SeatLine,
        *,
        credentials: Credentials,
        listener: int = -1,
        waits_for_room: bool = True,
        latency_s: float = 0.0,
    ) -> None:
        """Open it; `listener` is a socket that listens at this seat's address, if there is one.

        The roster that the line hears later is followed: seats are then reached where it says.

        Only seats of this run, which the credentials tell apart from others, are let in. Who does
        not wait for room keeps what others have not read yet, however much that is. Messages of
        other nodes are received `latency_s` after they arrived.
        """
        super().__init__()
        self.name = name
        self._run = run
        self._line = line
        self._next_look_s = 0.0
        self._names_are_proven = credentials.prove_names
        self._connections = Connections(
            name,
            roster,
            timeout_s=_LOOK_S,
            credentials=credentials,
            listener=listener,
            waits_for_room=waits_for_room,
        )
        self._late: LateInbox | None = None
        if latency_s:
            self._late = self._late_inbox(roster, latency_s)
        self._inbox = self._late or self._connections.inbox
        self._outbox = self._connections.outbox
        self._drafts: dict[tuple[torch.dtype, torch.Size], tuple[bytearray, memoryview]] = {}
        self._roster = roster
        self._incarnation = roster.by_name[name].incarnation
        self._sequence = 0
        self._last_seen: dict[str, int] = {}
        self._incarnations = {
            **{name: last + 1 for name, last in roster.gone.items()},
            **{each.name: each.incarnation for each in roster.sittings},
        }
        """Of each sender, the one whose messages are taken."""
        self._complaints = Complaints(_log)
        self._bell = os.eventfd(0, os.EFD_CLOEXEC)

    def _late_inbox(self, roster: Roster, latency_s: float) -> LateInbox:
        mine, nodes = roster.node_of(self.name), {e.name: e.seat.node for e in roster.sittings}
        return LateInbox(
            self._connections.inbox,
            latency_s,
            is_near=lambda sender: nodes.get(sender) == mine,
            timeout_s=_LOOK_S,
        )

    @property
    def rejected(self) -> int:
        return self._connections.num_turned_away

    def send(self, to: str, values: Tensor, tag: int = 0) -> None:
        values = values.contiguous()
        head = self._head(_name_of(values.dtype), values.shape, tag)
        memory = bytes_of(values)
        parts = (memory,) if memory.nbytes <= wire.PART_BYTES else wire.parts_of(memory)
        self._send(to, (head, *parts), values.nbytes)

    def packed(self, values: Tensor) -> Parcel:
        return _parcel(values, copy=True)

    def lent(self, values: Tensor) -> Parcel:
        # The frames stay, and what is sent each time is another reference to them.
        return _parcel(values, copy=False)

    def post(self, to: str, parcel: Parcel, tag: int = 0) -> None:
        self._send(to, self._parts_of(parcel, tag), parcel.values.nbytes, copy=False)

    def offer(self, to: str, parcel: Parcel, tag: int = 0) -> bool:
        outbox = self._outbox(to)
        outbox.keep_short()
        try:
            outbox.send_multipart(self._parts_of(parcel, tag), zmq.NOBLOCK, copy=False)
        except zmq.Again:
            self._sequence -= 1
            return False
        num_bytes = parcel.values.nbytes
        self.sent_bytes += num_bytes
        self.sent_to[to] += num_bytes
        return True

    def _parts_of(self, parcel: Parcel, tag: int) -> tuple[Any, ...]:
        values = parcel.values
        return self._head(_name_of(values.dtype), values.shape, tag), *parcel.frames

    def pass_on(self, to: str, message: Message) -> None:
        if not isinstance(message.frame, zmq.Frame):
            super().pass_on(to, message)
            return
        head = self._head(message.dtype, message.shape, message.tag)
        self._send(to, (head, message.frame), message.memory.nbytes, copy=False)

    def _send(
        self,
        to: str,
        parts: Sequence[zmq.Frame | bytes | memoryview],
        num_bytes: int,
        *,
        copy: bool = True,
    ) -> None:
        outbox = self._outbox(to)
        self._post(lambda: outbox.send_multipart(parts, copy=copy))
        self.sent_bytes += num_bytes
        self.sent_to[to] += num_bytes

    def outlet(self, to: str, values: Tensor) -> Callable[[int], None]:
        # Header and values of a small message are put together and travel as one part, which costs
        # a copy; of a large one the copy costs more than the second part.
        if values.nbytes > SMALL_BYTES:
            return partial(self.send, to, values)
        source, num_bytes = bytes_of(values), values.nbytes
        frame, target = self._draft(values)
        outbox, sent_to = self._outbox(to), self.sent_to

        def send(tag: int) -> None:
            target[:] = source
            wire.number(frame, self._sequence, tag)
            self._sequence += 1
            self.sent_bytes += num_bytes
            sent_to[to] += num_bytes
            try:
                outbox.send(frame)
            except zmq.Again:
                self._post(lambda: outbox.send(frame))

        return send

    def _head(self, dtype: str, shape: tuple[int, ...], tag: int) -> bytes:
        kind = wire.Kind(self._run, self.name, dtype, shape, self._incarnation)
        self._sequence += 1
        return wire.encode(kind, self._sequence - 1, tag)

    def _draft(self, values: Tensor) -> tuple[bytearray, memoryview]:
        """A frame to write small messages of one kind into: ZeroMQ copies it when it is sent."""
        key = (values.dtype, values.shape)
        if key not in self._drafts:
            frame = bytearray(self._head(_name_of(values.dtype), values.shape, 0))
            frame += bytes(values.nbytes)
            self._drafts[key] = frame, memoryview(frame)[wire.HEADER_BYTES :]
        return self._drafts[key]

    def _post(self, send: Callable[[], object]) -> None:
        """Send a frame, waiting for room as long as the run goes on."""
        while True:
            try:
                send()
                return
            except zmq.Again:
                self._look()

    def _look(self, *, drain: bool = False) -> None:
        """Look whether the driver said anything.

        Raises `Finished` when the run is over, unless what has arrived is to be read first.
        """
        self._next_look_s = monotonic() + _LOOK_S
        self._line.poll()
        newest = self._line.newest_roster
        if newest is not None:
            self.follow(newest)
            self.notice(newest)
        if not self._line.finished and (lost := self.lost()):
            raise lost
        if self._line.finished and not drain:
            raise Finished

    def follow(self, roster: Roster) -> None:
        if roster.epoch <= self._roster.epoch:
            return
        self._roster = roster
        self._connections.follow(roster)
        for each in roster.sittings:
            self._expect(each.name, each.incarnation)
        for name, last in roster.gone.items():  # whoever takes that seat again is the next one
            self._expect(name, last + 1)

    def _expect(self, sender: str, incarnation: int) -> None:
        """Take messages of this incarnation from now on, unless those of a later one came."""
        if incarnation > self._incarnations.get(sender, -1):
            self._incarnations[sender] = incarnation
            self._last_seen.pop(sender, None)

    def incarnation_of(self, sender: str) -> int:
        return self._incarnations.get(sender, 0)

    def _check_incarnation(self, kind: wire.Kind) -> None:
        """A later one than was heard of counts its messages anew; an earlier one is over."""
        self._expect(kind.sender, kind.incarnation)
        if kind.incarnation < self._incarnations[kind.sender]:
            raise WireError(f"{kind.sender} was started again since")

    def receive(self) -> Message:
        while True:
            if monotonic() >= self._next_look_s:
                self._look(drain=True)
            try:
                frame = self._inbox.recv(copy=False)
            except zmq.Again:
                self._look()
                continue
            if (message := self._message(frame)) is not None:
                return message

    def glance(self) -> Message | None:
        assert self._late is None
        try:
            return self._message(self._connections.inbox.recv(zmq.NOBLOCK, copy=False))
        except zmq.Again:
            self._look()
            return None

    def plain_host(self, name: str) -> str | None:
        # What is encrypted, or delayed here, goes through mailboxes only.
        is_plain = self._late is None and not self._names_are_proven
        sitting = self._roster.by_name.get(name)
        return _host_of(sitting.address) if is_plain and sitting and sitting.address else None

    def _message(self, frame: zmq.Frame) -> Message | None:
        """Make a message of a frame; None where it is not for us."""
        try:
            return self._read(frame)
        except WireError as error:
            self.dropped += 1
            self._complaints.add(f"dropped a frame: {error}")
            if self._line.finished:  # a stranger who never stops does not keep us
                raise Finished from None
            return None

    def wake(self) -> None:
        os.eventfd_write(self._bell, 1)

    def listen(self, blocked: Collection[str] = ()) -> Message | None:
        waits: list[tuple[int | zmq.Socket[bytes], int]] = [(self._bell, zmq.POLLIN)]
        waits += [(self._outbox(to).socket, zmq.POLLOUT) for to in blocked]
        late = self._late
        coming = self._connections.inbox if late is None else late.bell
        waits.append((coming, zmq.POLLIN))
        while True:
            if monotonic() >= self._next_look_s:
                self._look(drain=True)
            if late is not None and late.is_due:
                return self._message(late.recv())
            poll_ms = _LOOK_MS if late is None else late.due_in_ms(_LOOK_MS)
            ready: list[Any] = [each for each, _ in zmq.zmq_poll(waits, poll_ms)]
            if late is not None and (coming in ready or late.is_due):
                late.quiet()
                continue
            if coming in ready:
                with contextlib.suppress(zmq.Again):  # it may have been a stranger who left
                    return self._message(self._connections.inbox.recv(zmq.NOBLOCK, copy=False))
            if self._bell in ready:
                os.eventfd_read(self._bell)
            if ready:
                return None
            self._look()

    def _read(self, frame: zmq.Frame) -> Message:
        """Take a frame apart: its values follow the header, or are parts of their own."""
        head, parts = frame.buffer, self._parts(frame) if frame.more else ()
        num_bytes = sum(map(len, parts)) if parts else len(head) - wire.HEADER_BYTES
        kind, sequence, tag = wire.decode(head, num_bytes, self._run)
        sender = kind.sender
        if self._names_are_proven and frame.get("User-Id") != sender:
            raise WireError(f"a message of {sender} from {frame.get('User-Id')}")
        if kind.incarnation != self._incarnations.get(sender):
            self._check_incarnation(kind)
        # A sender counts its messages up: one that was sent again is taken once.
        if sequence <= self._last_seen.get(sender, -1):
            raise WireError(f"message {sequence} of {sender} came again")
        self._last_seen[sender] = sequence
        self.received_bytes += num_bytes
        if len(parts) == 1:
            return Message(sender, tag, kind.dtype, kind.shape, parts[0].buffer, parts[0])
        memory = _joined(parts) if parts else head[wire.HEADER_BYTES :]
        return Message(sender, tag, kind.dtype, kind.shape, memory)

    def _parts(self, frame: zmq.Frame) -> list[zmq.Frame]:
        """Take the parts that have the values of a large message."""
        parts, num_parts = [frame], 1
        while parts[-1].more:
            part = self._inbox.recv(copy=False)
            num_parts += 1
            if num_parts > 1 + _MOST_PARTS:  # only the last is kept, to see where they end
                parts.pop()
            parts.append(part)
        values = parts[1:]
        expected = 1 + wire.num_parts(sum(map(len, values)))
        if len(frame) != wire.HEADER_BYTES or num_parts != expected:
            raise WireError(f"{num_parts} parts, the first of {len(frame)} bytes")
        return values

    def lost(self) -> PeerLost | None:
        name = self._connections.lost()
        return None if name is None else PeerLost(name, f"{self.name} lost the connection to it")

    def close(self) -> None:
        self.closes_too.close()
        if self._late is not None:
            self._late.close()
        self._connections.close()
        if self._bell >= 0:
            os.close(self._bell)
            self._bell = -1


def _host_of(address: str) -> str | None:
    """Read the host of a mailbox that is reached over TCP: `tcp://[::1]:7000`."""
    kind, _, rest = address.partition("://")
    return rest.rpartition(":")[0].strip("[]") if kind == "tcp" else None


def _joined(parts: Sequence[zmq.Frame]) -> memoryview:
    """Put the parts of a message's values together."""
    return memoryview(bytearray().join(part.buffer for part in parts))


def _parcel(values: Tensor, *, copy: bool) -> Parcel:
    parts = wire.parts_of(bytes_of(values)) if values.nbytes else []
    return Parcel(values, tuple(zmq.Frame(part, copy=copy) for part in parts))


@cache
def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
