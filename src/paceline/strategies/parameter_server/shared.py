"""Parameters and gradients of each worker in memory that the servers of its host share.

A worker computes its gradients right where the servers read them, and the servers write new
parameters right where the worker computes on them: nothing is copied on the way. A push is a
number in the arena's header and a ring of the servers' bells, a reply is the same back.

The arena: a page of 64-bit words, the gradients, the parameters, and, for a model with a table,
the numbers of the rows that the batch touched and their gradients. The first words are the push's
number, its flags and when it was sent; then for each server the number of the push it has
answered, the version of the parameters it wrote, the reply's flags, and which of the rows are its.

A server's own arena holds its part of the table, which workers read from directly.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from operator import sub
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, final

import torch

from paceline.comm.shared import Host, tensor_in
from paceline.replica import Replica
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.cuts import Chunk, server_part, stops_of
from paceline.strategies.parameter_server.link import (
    PULL,
    REFUSED,
    WAIT,
    Answer,
    Arrival,
    ServerLink,
    Touched,
    WorkerLink,
)

if TYPE_CHECKING:
    from torch import Tensor

_HEADER_BYTES: Final = 4096
_PUSH, _FLAGS, _SENT, _FIRST_SERVER = 0, 1, 2, 8
_ANSWERED, _VERSION, _REPLY_FLAGS, _ROWS_START, _ROWS_STOP, _WORDS = 0, 1, 2, 3, 4, 8
_ID_BYTES: Final = 8
# Most rows that a batch may touch. Memory that is never touched costs nothing.
_MOST_ROWS: Final = 1 << 22
MOST_SERVERS: Final = (_HEADER_BYTES // 8 - _FIRST_SERVER) // _WORDS


@final
class _Layout:
    """Where things lie in a worker's arena."""

    def __init__(self, replica: Replica) -> None:
        values = replica.parameters
        self.gradients = _HEADER_BYTES
        self.parameters = self.gradients + values.nbytes
        # rows' numbers are 64-bit words and begin at one
        self.rows = -(-(self.parameters + values.nbytes) // _ID_BYTES) * _ID_BYTES
        table = replica.table
        self.num_rows = 0 if table is None else min(table.num_rows, _MOST_ROWS)
        self.width = 0 if table is None else table.width
        self.row_gradients = self.rows + self.num_rows * _ID_BYTES
        self.num_bytes = self.row_gradients + self.num_rows * self.width * values.element_size()


def _words(memory: mmap.mmap) -> memoryview:
    return memoryview(memory)[:_HEADER_BYTES].cast("q")


def _row_area(memory: mmap.mmap, layout: _Layout, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The numbers of the touched rows, and their gradients."""
    count, width = layout.num_rows, layout.width
    rows = tensor_in(memory, torch.int64, count, layout.rows)
    gradients = tensor_in(memory, dtype, count * width, layout.row_gradients)
    return rows, gradients.view(count, width)


@final
class SharedWorkerLink(WorkerLink):
    """Moves the replica into this worker's arena."""

    def __init__(self, place: Place, host: Host) -> None:
        self._host = host
        self._servers = [f"server{index}" for index in range(place.num_servers)]
        self._places = [_FIRST_SERVER + _WORDS * index for index in range(place.num_servers)]
        replica = place.replica
        layout = _Layout(replica)
        memory = host.open_own(layout.num_bytes)
        count, dtype = len(replica.parameters), replica.parameters.dtype
        replica.move_to(
            parameters=tensor_in(memory, dtype, count, layout.parameters),
            gradients=tensor_in(memory, dtype, count, layout.gradients),
        )
        self._rows, self._row_gradients = _row_area(memory, layout, dtype)
        self._table = replica.table
        self._tables: list[Tensor] = []
        self._dtype = dtype
        self._words = _words(memory)
        self._number = 0
        self._num_bytes = replica.parameters.nbytes
        self._versions = [0] * place.num_servers

    def exchange(self, flags: int, touched: Touched | None = None) -> Answer:
        words = self._words
        if touched is not None:
            self._lay_rows(touched)
        self._number += 1
        self.sent_bytes += 0 if flags & (PULL | REFUSED) else self._num_bytes
        words[_FLAGS] = flags
        words[_SENT] = monotonic_ns()
        words[_PUSH] = self._number
        for server in self._servers:
            self._host.ring(server)
        for place in self._places:
            while words[place + _ANSWERED] < self._number:
                self._host.wait()
        return self._answer()

    def _answer(self) -> Answer:
        words, first = self._words, self._places[0]
        self.received_bytes += self._num_bytes
        versions = [words[place + _VERSION] for place in self._places]
        grown = max(map(sub, versions, self._versions))
        self._versions = versions
        flags = words[first + _REPLY_FLAGS] & ~WAIT
        if any(words[place + _REPLY_FLAGS] & WAIT for place in self._places):
            flags |= WAIT
        return Answer(versions[0], flags, grown - 1)

    def _lay_rows(self, touched: Touched) -> None:
        """Put the batch's rows and their gradients where the servers read them."""
        rows, gradients = touched
        count = rows.numel()
        if count > self._rows.numel():
            raise ValueError(f"a batch touches {count} rows, more than {self._rows.numel()}")
        self._rows[:count].copy_(rows)
        self._row_gradients[:count].copy_(gradients)
        self.sent_bytes += rows.nbytes + gradients.nbytes
        start = 0
        for place, stop in zip(self._places, self._stops(rows), strict=True):
            self._words[place + _ROWS_START], self._words[place + _ROWS_STOP] = start, stop
            start = stop

    def _stops(self, rows: Tensor) -> list[int]:
        assert self._table is not None
        return stops_of(rows, self._table.num_rows, len(self._places))

    def pull_rows(self, rows: Tensor) -> Tensor:
        if not self._tables:
            self._open_tables()
        start, pulled = 0, []
        for server, stop in enumerate(self._stops(rows)):
            first = self._first_rows[server]
            pulled.append(self._tables[server].index_select(0, rows[start:stop] - first))
            start = stop
        values = pulled[0] if len(pulled) == 1 else torch.cat(pulled)
        self.received_bytes += values.nbytes
        return values

    def _open_tables(self) -> None:
        """Map the servers' arenas: they are sized before the start."""
        assert self._table is not None
        num_rows, width, num_servers = self._table.num_rows, self._table.width, len(self._places)
        parts = [server_part(num_rows, num_servers, each) for each in range(num_servers)]
        self._first_rows = [part.start for part in parts]
        for name, part in zip(self._servers, parts, strict=True):
            count = (part.stop - part.start) * width
            memory = self._host.open(name)
            self._tables.append(tensor_in(memory, self._dtype, count, 0).view(-1, width))

    def await_release(self) -> Answer:
        words = self._words
        for place in self._places:
            while words[place + _REPLY_FLAGS] & WAIT:
                self._host.wait()
        return self._answer()


@final
class SharedServerLink(ServerLink):
    """Reads and writes its own part of every worker's arena."""

    def __init__(self, place: Place, host: Host, chunks: list[Chunk]) -> None:
        self._place = place
        self._host = host
        self._chunks = chunks
        self._answers_due = [0] * place.num_workers
        self._seen = [0] * place.num_workers
        self._words: list[memoryview] = []
        self._gradients: list[list[Tensor]] = []
        self._parameters: list[list[Tensor]] = []
        self._row_areas: list[tuple[Tensor, Tensor]] = []
        self._first_row = 0
        self._mine = _FIRST_SERVER + _WORDS * place.rank

    def _open_arenas(self) -> None:
        """Map the workers' arenas: they are sized before the start, and nobody pushes earlier."""
        whole = self._place.replica.parameters
        layout = _Layout(self._place.replica)
        for rank in range(self._place.num_workers):
            memory = self._host.open(f"worker{rank}")
            gradients, parameters = (
                tensor_in(memory, whole.dtype, len(whole), offset)
                for offset in (layout.gradients, layout.parameters)
            )
            self._row_areas.append(_row_area(memory, layout, whole.dtype))
            self._words.append(_words(memory))
            self._gradients.append([gradients[each.start : each.stop] for each in self._chunks])
            self._parameters.append([parameters[each.start : each.stop] for each in self._chunks])

    def arrivals(self) -> Iterator[Arrival]:
        self._host.wait()
        self._open_arenas()
        while True:
            for worker, words in enumerate(self._words):
                if words[_PUSH] != self._seen[worker]:
                    self._seen[worker] += 1
                    yield from self._push(worker, words[_FLAGS])
            self._host.wait()

    def _push(self, worker: int, flags: int) -> Iterator[Arrival]:
        self._answers_due[worker] = len(self._chunks)
        words = self._words[worker]
        version, sent_ns = words[self._mine + _VERSION], words[_SENT]
        last, gradients = self._chunks[-1], self._gradients[worker]
        for chunk, gradient in zip(self._chunks[:-1], gradients, strict=False):
            yield Arrival(worker, chunk, flags, version, gradient, sent_ns)
        touched = (None, None) if self._place.replica.table is None else self._touched(worker)
        yield Arrival(worker, last, flags, version, gradients[-1], sent_ns, *touched)

    def _touched(self, worker: int) -> tuple[Tensor, Tensor]:
        """The rows of our part that a push touches, numbered within it, and their gradients."""
        words, mine = self._words[worker], self._mine
        mine_only = slice(words[mine + _ROWS_START], words[mine + _ROWS_STOP])
        rows, gradients = self._row_areas[worker]
        return rows[mine_only] - self._first_row, gradients[mine_only]

    def make_table(self, num_rows: int, width: int, dtype: torch.dtype) -> Tensor:
        assert self._place.replica.table is not None
        whole = self._place.replica.table.num_rows
        self._first_row = server_part(whole, self._place.num_servers, self._place.rank).start
        memory = self._host.open_own(max(1, num_rows * width * dtype.itemsize))
        return tensor_in(memory, dtype, num_rows * width, 0).view(num_rows, width)

    def answer_rows(self, worker: int, values: Tensor, version: int) -> None:
        del worker, values, version
        raise AssertionError("workers read rows straight from the table")

    def answer(
        self, worker: int, chunk: Chunk, parameters: Tensor, version: int, flags: int
    ) -> None:
        self._parameters[worker][chunk.index].copy_(parameters)
        self._answers_due[worker] -= 1
        if self._answers_due[worker] > 0:
            return
        words, mine = self._words[worker], self._mine
        words[mine + _VERSION] = version
        words[mine + _REPLY_FLAGS] = flags
        words[mine + _ANSWERED] = self._seen[worker]
        self._host.ring(f"worker{worker}")
