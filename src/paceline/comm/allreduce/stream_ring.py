"""The way of large tensors around the ring, through connections of its own (`streams.py`).

It is the algorithm of `ring`, in pieces that fit into a processor's cache. What comes is received
where it is to be, or, while it is still to be added, into a small buffer; it is passed on from the
tensor. So every byte is copied by the kernel only, out of one process and into the next. A rank
sends from memory that it may not change yet; it does not: a chunk is replaced by its sum, and that
sum is made of what was sent of it.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from paceline.comm import wire
from paceline.comm.allreduce.base import slice_of
from paceline.comm.allreduce.mail import Mail
from paceline.comm.allreduce.small_ring import different_tensors
from paceline.comm.allreduce.streams import Streams
from paceline.comm.base import Message, bytes_of
from paceline.errors import PeerLost
from paceline.system.waiting import time_left

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PIECE_BYTES: Final = 1 << 20
# A chunk is cut into several, so that something is always on its way, none of them tiny.
_PIECES: Final = 3
_LEAST_PIECE_BYTES: Final = 1 << 16
# A rank that waits is woken when so much has come, or what it waits for: not with every packet,
# which would cost more than to copy it.
_WAKING_BYTES: Final = 1 << 19
_LOOK_MS: Final = 50
# How long it may take to hear why a connection broke: a seat was lost, or members changed.
_MOST_BROKEN_S: Final = 30.0
# How long a message of the rank before may lie there, and nothing come through its stream: longer
# than TCP takes to go on after a link was away for a while.
MOST_APART_S: Final = 30.0
_MAGIC: Final = b"PCLS"
# magic, dtype, values of the part that follows
_HEADER: Final = struct.Struct("<4sBxxxQ")


@final
class StreamRing:
    """Reduces large tensors part by part, each of which begins with a header."""

    def __init__(
        self, rank: int, names: Sequence[str], mail: Mail, epoch: int, streams: Streams
    ) -> None:
        self._rank = rank
        self._num_ranks = len(names)
        self._num_hops = 2 * (len(names) - 1)
        self._outgoing = _Outgoing(streams, names[(rank + 1) % len(names)], mail)
        self._incoming = _Incoming(streams, names[rank - 1], mail, epoch, self._outgoing)
        self._buffer = bytearray(PIECE_BYTES)

    def reduce(
        self,
        parts: Sequence[Tensor],
        divisor: int,
        *,
        is_begun: bool,
        look_ahead: Callable[[], Tensor | None],
    ) -> None:
        """Reduce the parts of a tensor.

        What `look_ahead` gives, the first of the next one, is begun while the last is yet to come.
        """
        if not is_begun:
            self._begin(parts[0])
        for part, following in zip_longest(parts, parts[1:]):
            self._reduce(
                part, divisor, partial(_same, following) if following is not None else look_ahead
            )
        self._outgoing.finish(self._incoming.wait)

    def _begin(self, part: Tensor) -> None:
        """Have this rank's own chunk sent."""
        dtype = wire.DTYPES.index(_name_of(part.dtype))
        self._outgoing.add(memoryview(_HEADER.pack(_MAGIC, dtype, part.numel())), counts=False)
        chunk = slice_of(part.numel(), self._num_ranks, self._rank)
        self._outgoing.add(bytes_of(part[chunk]))

    def _reduce(self, part: Tensor, divisor: int, next_part: Callable[[], Tensor | None]) -> None:
        self._check_header(part)
        for hop in range(self._num_hops):
            if hop == self._num_hops - 1:  # all of this part has been passed on
                self._outgoing.mark()
                following = next_part()
                if following is not None:
                    self._begin(following)
            came = (self._rank - hop - 1) % self._num_ranks
            self._take(hop, part[slice_of(part.numel(), self._num_ranks, came)], divisor)

    def _check_header(self, part: Tensor) -> None:
        header = bytearray(_HEADER.size)
        self._incoming.fill(memoryview(header), counts=False)
        magic, dtype, count = _HEADER.unpack(header)
        if magic != _MAGIC or dtype >= len(wire.DTYPES):
            raise ValueError("what came through a stream is not of this version")
        if (wire.DTYPES[dtype], count) != (_name_of(part.dtype), part.numel()):
            came = Message("", 0, wire.DTYPES[dtype], (count,), memoryview(b""))
            raise different_tensors(came, tuple(part.shape), _name_of(part.dtype))

    def _take(self, hop: int, chunk: Tensor, divisor: int) -> None:
        """Receive a chunk piece by piece, add or keep each, and pass it on."""
        if not chunk.numel():
            return
        memory, length = bytes_of(chunk), _piece_bytes(chunk)
        take = self._add if hop <= self._num_ranks - 2 else self._keep
        divides = divisor if hop == self._num_ranks - 2 else 1
        for start in range(0, memory.nbytes, length):
            piece = memory[start : start + length]
            take(piece, chunk, start, divides)
            if hop < self._num_hops - 1:
                self._outgoing.add(piece)

    def _keep(self, piece: memoryview, chunk: Tensor, start: int, divisor: int) -> None:
        del chunk, start, divisor
        self._incoming.fill(piece)

    def _add(self, piece: memoryview, chunk: Tensor, start: int, divisor: int) -> None:
        import torch

        came = memoryview(self._buffer)[: piece.nbytes]
        self._incoming.fill(came)
        first, size = start // chunk.element_size(), piece.nbytes // chunk.element_size()
        own = chunk.detach()[first : first + size]
        torch.add(torch.frombuffer(came, dtype=chunk.dtype), own, out=own)
        if divisor > 1:
            own.div_(divisor)


def _same(part: Tensor) -> Tensor:
    return part


def _piece_bytes(chunk: Tensor) -> int:
    wanted = max(_LEAST_PIECE_BYTES, min(PIECE_BYTES, -(-chunk.nbytes // _PIECES)))
    return wanted // chunk.element_size() * chunk.element_size()


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@final
class _Outgoing:
    """What a rank has yet to send, in order, from where it lies."""

    def __init__(self, streams: Streams, to: str, mail: Mail) -> None:
        self.socket = streams.outgoing
        self._to = to
        self._channel = mail.channel
        self._waiting: deque[memoryview] = deque()
        self._num_added = 0
        self._num_wanted = 0

    def add(self, memory: memoryview, *, counts: bool = True) -> None:
        """Send a piece as soon as there is room, whenever that is."""
        if counts:
            self._channel.sent_bytes += memory.nbytes
            self._channel.sent_to[self._to] += memory.nbytes
        self._waiting.append(memory)
        self._num_added += 1
        self.send_some()

    def mark(self) -> None:
        """What has been added until now belongs to the tensor that is reduced."""
        self._num_wanted = self._num_added

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def send_some(self) -> bool:
        """Send what there is room for; returns whether anything was sent."""
        waiting, has_sent = self._waiting, False
        try:
            while waiting:
                memory = waiting[0]
                num_sent = self.socket.send(memory)
                has_sent = True
                if num_sent < memory.nbytes:
                    waiting[0] = memory[num_sent:]
                else:
                    waiting.popleft()
        except BlockingIOError:
            pass
        except OSError:
            waiting.clear()  # who has lost the next rank hears of it while it receives
        return has_sent

    def finish(self, wait: Callable[[], None]) -> None:
        """Send all of the tensor that is reduced; what was begun after it may stay here."""
        while self._num_added - len(self._waiting) < self._num_wanted:
            if not self.send_some():
                wait()


@final
class _Incoming:
    """What comes from the rank before, and every wait for it."""

    def __init__(
        self, streams: Streams, sender: str, mail: Mail, epoch: int, outgoing: _Outgoing
    ) -> None:
        self._socket = streams.incoming
        self._sender = sender
        self._mail = mail
        self._epoch = epoch
        self._outgoing = outgoing
        self._next_look_s = 0.0
        # When a message of the sender was seen first, with nothing received since.
        self._came_s = 0.0
        self._wakes_at = 1
        self._reads = _polled(self._socket, None)
        self._both = _polled(self._socket, outgoing.socket)

    def fill(self, memory: memoryview, *, counts: bool = True) -> None:
        """Receive as much as fits, and meanwhile send what there is to send."""
        if counts:
            self._mail.channel.received_bytes += memory.nbytes
        self._came_s = 0.0
        while memory.nbytes:
            try:
                num_bytes = self._socket.recv_into(memory)
            except BlockingIOError:
                if self._outgoing.is_empty or not self._outgoing.send_some():
                    self._wake_at(min(memory.nbytes, _WAKING_BYTES))
                    self.wait()
                continue
            except OSError:
                num_bytes = 0
            if not num_bytes:
                self._hear_why()
            self._came_s = 0.0
            memory = memory[num_bytes:]

    def _wake_at(self, num_bytes: int) -> None:
        if num_bytes != self._wakes_at:
            self._wakes_at = num_bytes
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, num_bytes)

    def wait(self) -> None:
        """Wait until something comes or there is room to send; raises what ends the wait."""
        ready = self._reads if self._outgoing.is_empty else self._both
        is_ready = ready.poll(_LOOK_MS)
        if not is_ready or monotonic() >= self._next_look_s:
            self._look()

    def _look(self) -> None:
        now_s = monotonic()
        self._next_look_s = now_s + _LOOK_MS / 1000
        self._mail.look(self._epoch)
        if not self._mail.has_of(self._sender, self._epoch):
            self._came_s = 0.0
        elif not self._came_s:
            self._came_s = now_s
        elif now_s - self._came_s > MOST_APART_S:
            raise ValueError(
                f"ranks reduce different tensors: {self._sender} sends one by message that is "
                "large here"
            )

    def _hear_why(self) -> None:
        """Wait for the word that ends the run, or the formation; the stream has ended already."""
        never = select.poll()
        for _ in time_left(_MOST_BROKEN_S):
            self._mail.look(self._epoch)
            never.poll(_LOOK_MS)
        raise PeerLost(self._sender, "its connection ended while tensors were on their way")


def _polled(reads: socket.socket, writes: socket.socket | None) -> select.poll:
    made = select.poll()
    made.register(reads, select.POLLIN)
    if writes is not None:
        made.register(writes, select.POLLOUT)
    return made
