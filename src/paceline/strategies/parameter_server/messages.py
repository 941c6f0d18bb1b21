"""The same by messages, where worker and server share no memory: chunks, a few in flight.

The tag of a message is version, chunk and flags in one number. A worker sends the next chunk only
while fewer than `WINDOW` of a server's answers are due, so no server holds more than its own part
and that many chunks a worker; but for a worker that is released while it rests at an evaluation,
whose new parameters are kept until it reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, final

import torch

from paceline.comm.base import Message, bytes_of
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.cuts import CHUNK_BITS, Chunk, server_part, stops_of
from paceline.strategies.parameter_server.link import (
    PULL,
    REFUSED,
    RELEASE,
    ROWS,
    WAIT,
    Answer,
    Arrival,
    ServerLink,
    Touched,
    WorkerLink,
)

if TYPE_CHECKING:
    from torch import Tensor

WINDOW: Final = 8
# With ROWS: these rows are part of a push; else their values are wanted.
PUSHED: Final = 64  # a bit that no flag of `link` has
_FLAG_BITS: Final = 8


def pack(version: int, chunk: int, flags: int) -> int:
    """Make a message's tag."""
    return (version << (_FLAG_BITS + CHUNK_BITS)) | (chunk << _FLAG_BITS) | flags


def unpack(tag: int) -> tuple[int, int, int]:
    """Read a message's tag: version, chunk, flags."""
    chunk = (tag >> _FLAG_BITS) & ((1 << CHUNK_BITS) - 1)
    return tag >> (_FLAG_BITS + CHUNK_BITS), chunk, tag & ((1 << _FLAG_BITS) - 1)


@final
class _Correspondent:
    """What a worker knows of one server."""

    def __init__(self, chunks: list[Chunk], place: Place) -> None:
        self.name = f"server{chunks[0].server}"
        replica, channel = place.replica, place.channel
        gradients = [replica.gradients[each.start : each.stop] for each in chunks]
        self.outlets = [channel.outlet(self.name, each) for each in gradients]
        self.num_bytes = [each.nbytes for each in gradients]
        self.empty = channel.outlet(self.name, replica.gradients[:0])
        self.parameters = [bytes_of(replica.parameters[each.start : each.stop]) for each in chunks]
        self.num_sent = 0
        self.num_due = 0
        self.version = 0
        self.base_version = 0
        self.rows_version = 0
        self.flags = 0


@final
class MessageWorkerLink(WorkerLink):
    """Sends gradients and takes parameters through the place's channel."""

    def __init__(self, place: Place, chunks: list[list[Chunk]]) -> None:
        self._replica = place.replica
        self._channel = place.channel
        self._servers = [_Correspondent(each, place) for each in chunks]
        self._by_name = {each.name: each for each in self._servers}
        self._num_due = 0
        self._pulled: dict[str, Tensor] = {}
        self._ahead: Tensor | None = None

    def exchange(self, flags: int, touched: Touched | None = None) -> Answer:
        if touched is not None and not flags & (PULL | REFUSED):
            self._send_rows(touched)
        for server in self._servers:
            server.num_sent = 0
            self._send_what_may_go(server, flags)
        while self._num_due:
            server = self._take(self._channel.receive())
            if server.num_sent < len(server.outlets):
                self._send_what_may_go(server, flags)
        return self._answer()

    def _send_what_may_go(self, server: _Correspondent, flags: int) -> None:
        while server.num_sent < len(server.outlets) and server.num_due < WINDOW:
            index = server.num_sent
            tag = pack(server.base_version, index, flags)
            if flags & (PULL | REFUSED):
                server.empty(tag)
            else:
                server.outlets[index](tag)
                self.sent_bytes += server.num_bytes[index]
            server.num_sent += 1
            server.num_due += 1
            self._num_due += 1

    def _send_rows(self, touched: Touched) -> None:
        """Send each server its rows, then their gradients: they come before the chunks do."""
        start = 0
        for server, stop in zip(self._servers, self._stops(touched.rows), strict=True):
            for values in (touched.rows[start:stop], touched.gradients[start:stop]):
                self._channel.send(server.name, values, pack(0, 0, ROWS | PUSHED))
                self.sent_bytes += values.nbytes
            start = stop

    def _stops(self, rows: Tensor) -> list[int]:
        assert self._replica.table is not None
        return stops_of(rows, self._replica.table.num_rows, len(self._servers))

    def pull_rows(self, rows: Tensor) -> Tensor:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            values = self._gather_rows()
            if ahead is rows:
                self._count_from_rows()
                return values
            # Somebody looks at other rows in between, as an evaluation does.
        self._ask_rows(rows)
        return self._gather_rows()

    def fetch_ahead(self, rows: Tensor) -> None:
        self._ahead = rows
        self._ask_rows(rows)

    def _count_from_rows(self) -> None:
        """Rows that were fetched ahead are older than the rest: staleness is theirs."""
        for server in self._servers:
            server.base_version = server.rows_version

    def _ask_rows(self, rows: Tensor) -> None:
        start = 0
        for server, stop in zip(self._servers, self._stops(rows), strict=True):
            self._channel.send(server.name, rows[start:stop], pack(0, 0, ROWS))
            self.sent_bytes += rows[start:stop].nbytes
            start = stop

    def _gather_rows(self) -> Tensor:
        while len(self._pulled) < len(self._servers):
            self._take(self._channel.receive())
        pulled, self._pulled = self._pulled, {}
        return torch.cat([pulled[server.name] for server in self._servers])

    def _take(self, message: Message) -> _Correspondent:
        server = self._by_name[message.sender]
        version, index, flags = unpack(message.tag)
        self.received_bytes += message.memory.nbytes
        if flags & ROWS:
            self._pulled[message.sender] = message.values
            server.rows_version = version
            return server
        server.parameters[index][:] = message.memory
        if not flags & RELEASE:
            server.num_due -= 1
            self._num_due -= 1
        if index == len(server.parameters) - 1:
            server.version, server.flags = version, flags
        return server

    def _answer(self) -> Answer:
        flags, grown = self._servers[0].flags & ~WAIT, 0
        for each in self._servers:
            flags |= each.flags & WAIT
            grown = max(grown, each.version - each.base_version)
            each.base_version = each.version
        return Answer(self._servers[0].version, flags, grown - 1)

    def await_release(self) -> Answer:
        while any(each.flags & WAIT for each in self._servers):
            self._take(self._channel.receive())
        return self._answer()


@final
class MessageServerLink(ServerLink):
    """Takes gradients and sends parameters through the place's channel."""

    def __init__(self, place: Place, chunks: list[Chunk]) -> None:
        self._channel = place.channel
        self._chunks = chunks
        self.changes = [0] * len(chunks)
        self._names = [f"worker{rank}" for rank in range(place.num_workers)]
        self._ranks = {name: rank for rank, name in enumerate(self._names)}
        self._dtype = place.replica.parameters.dtype
        self._dtype_name = str(self._dtype).removeprefix("torch.")
        self._outlets: dict[tuple[int, int], Callable[[int], None]] = {}
        self._table = place.replica.table
        self._part = slice(0, 0)
        if self._table is not None:
            self._part = server_part(self._table.num_rows, place.num_servers, place.rank)
        self._touched: dict[int, list[Tensor]] = {}

    def arrivals(self) -> Iterator[Arrival]:
        while True:
            message = self._channel.receive()
            came_ns = monotonic_ns()
            flags = unpack(message.tag)[2]
            if flags & ROWS and flags & PUSHED:
                is_ours = self._keep_rows(message)
            else:
                arrival = self._read_rows(message) if flags & ROWS else self._read(message)
                is_ours = arrival is not None
                if arrival is not None:
                    yield arrival
            self._channel.dropped += not is_ours
            self.busy_ns += monotonic_ns() - came_ns

    def _keep_rows(self, message: Message) -> bool:
        """Keep a push's rows, then their gradients, until its last chunk comes."""
        rank = self._ranks.get(message.sender)
        if rank is None or self._table is None:
            return False
        kept = self._touched.setdefault(rank, [])
        if not kept:
            if not self._are_ours(message.values):
                return False
            kept.append(message.values - self._part.start)
            return True
        expected = (len(kept[0]), self._table.width)
        if message.values.shape != expected or message.values.dtype != self._dtype:
            kept.clear()
            return False
        kept.append(message.values)
        return True

    def _are_ours(self, rows: Tensor) -> bool:
        """Whether these are numbers of rows of our part, in ascending order."""
        if rows.dtype != torch.int64 or rows.dim() != 1:
            return False
        if not rows.numel():
            return True
        ascending = bool((rows[1:] > rows[:-1]).all())
        return ascending and bool(rows[0] >= self._part.start) and bool(rows[-1] < self._part.stop)

    def _read_rows(self, message: Message) -> Arrival | None:
        """Read what a worker wants of the table."""
        rank = self._ranks.get(message.sender)
        if rank is None or self._table is None or not self._are_ours(message.values):
            return None
        rows = message.values - self._part.start
        return Arrival(rank, self._chunks[0], ROWS, 0, message.values, rows=rows)

    def place_parameters(self, initial: Tensor) -> Tensor:
        return initial.clone()

    def make_table(self, num_rows: int, width: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(num_rows, width, dtype=dtype)

    def answer_rows(self, worker: int, values: Tensor, version: int) -> None:
        self._channel.send(self._names[worker], values, pack(version, 0, ROWS))

    def _read(self, message: Message) -> Arrival | None:
        """Take only what fits: another dtype, length or chunk is not for us."""
        version, index, flags = unpack(message.tag)
        rank = self._ranks.get(message.sender)
        if rank is None or index >= len(self._chunks) or message.dtype != self._dtype_name:
            return None
        chunk = self._chunks[index]
        expected = 0 if flags & (PULL | REFUSED) else chunk.stop - chunk.start
        if message.shape != (expected,):
            return None
        if index < len(self._chunks) - 1 or flags & PULL or self._table is None:
            return Arrival(rank, chunk, flags, version, message.values)
        rows = self._touched.pop(rank, [])
        touched = rows if len(rows) == 2 else (None, None)
        return Arrival(rank, chunk, flags, version, message.values, 0, *touched)

    def answer(
        self, worker: int, chunk: Chunk, parameters: Tensor, version: int, flags: int
    ) -> None:
        outlet = self._outlets.get((worker, chunk.index))
        if outlet is None:
            outlet = self._channel.outlet(self._names[worker], parameters)
            self._outlets[worker, chunk.index] = outlet
        outlet(pack(version, chunk.index, flags))
