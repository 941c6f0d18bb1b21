"""Gradients of each worker, and parameters of each server, in memory that all of a host share.

A worker computes its gradients right where the servers read them, and copies parameters from where
the servers keep them: a server itself copies nothing. Where a worker must have the parameters
exactly as they were when it was let go, a server writes them right where the worker computes on
them. A push is a number in the worker's arena and a ring of the servers' bells, a reply is the same
back.

A worker's arena: a page of 64-bit words, the gradients, the parameters, and, for a model with a
table, the numbers of the rows that the batch touched and their gradients. The first words are the
push's number, its flags and when it was sent; then for each server the number of the push it has
answered and how many chunks of it so far, the version of the parameters, the reply's flags, and
which of the rows are its.

A server's arena: a word for the version of the parameters, one for each chunk that is odd while
the chunk changes, its part of the parameters, and its part of the table. Another worker's push may
be applied while a worker copies; the chunk's word then tells it to copy again. This relies on a
processor that keeps stores in order, as x86 does, or on the time that a call from Python takes.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from operator import sub
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, final

import torch

from paceline.comm.patience import Patience
from paceline.comm.shared import Host, tensor_in
from paceline.replica import Replica
from paceline.rows import narrow
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
_ANSWERED, _CHUNKS, _VERSION, _REPLY_FLAGS, _ROWS_START, _ROWS_STOP, _WORDS = 0, 1, 2, 3, 4, 5, 8
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
        self.rows = _rounded(self.parameters + values.nbytes, _ID_BYTES)
        table = replica.table
        self.num_rows = 0 if table is None else min(table.num_rows, _MOST_ROWS)
        self.width = 0 if table is None else table.width
        self.row_gradients = self.rows + self.num_rows * _ID_BYTES
        self.num_bytes = self.row_gradients + self.num_rows * self.width * values.element_size()


@final
class _ServerLayout:
    """Where things lie in a server's arena."""

    def __init__(self, place: Place, chunks: list[Chunk], server: int) -> None:
        replica, num_servers = place.replica, place.num_servers
        self.dtype = replica.parameters.dtype
        self.num_words = 1 + len(chunks)
        self.parameters = _rounded(8 * self.num_words, _HEADER_BYTES)
        self.num_values = chunks[-1].stop - chunks[0].start
        self.table = _rounded(
            self.parameters + self.num_values * self.dtype.itemsize, _HEADER_BYTES
        )
        self.rows = slice(0, 0)
        self.width = 0
        if replica.table is not None:
            self.rows = server_part(replica.table.num_rows, num_servers, server)
            self.width = replica.table.width
        self.num_row_values = (self.rows.stop - self.rows.start) * self.width
        self.num_bytes = self.table + self.num_row_values * self.dtype.itemsize

    def version_in(self, memory: mmap.mmap) -> memoryview:
        return memoryview(memory)[:8].cast("q")

    def changes_in(self, memory: mmap.mmap) -> memoryview:
        return memoryview(memory)[8 : 8 * self.num_words].cast("q")

    def parameters_in(self, memory: mmap.mmap) -> Tensor:
        return tensor_in(memory, self.dtype, self.num_values, self.parameters)

    def table_in(self, memory: mmap.mmap) -> Tensor:
        return tensor_in(memory, self.dtype, self.num_row_values, self.table).view(-1, self.width)


def _rounded(num_bytes: int, unit: int) -> int:
    return -(-num_bytes // unit) * unit


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
    """Moves the replica's gradients into this worker's arena, and its parameters if need be."""

    def __init__(self, place: Place, host: Host, chunks: list[list[Chunk]], *, exact: bool) -> None:
        self._place = place
        self._host = host
        self._chunks = chunks
        self._names = [f"server{index}" for index in range(place.num_servers)]
        self._places = [_FIRST_SERVER + _WORDS * index for index in range(place.num_servers)]
        replica = place.replica
        layout = _Layout(replica)
        memory = host.open_own(layout.num_bytes)
        count, dtype = len(replica.parameters), replica.parameters.dtype
        replica.move_to(
            parameters=tensor_in(memory, dtype, count, layout.parameters)
            if exact
            else replica.parameters,
            gradients=tensor_in(memory, dtype, count, layout.gradients),
        )
        self._exact = exact
        self._rows, self._row_gradients = _row_area(memory, layout, dtype)
        self._servers: list[_Kept] = []
        self._words = _words(memory)
        self._patience = Patience()
        self._number = 0
        self._num_bytes = replica.parameters.nbytes
        self._versions = [0] * place.num_servers

    def exchange(self, flags: int, touched: Touched | None = None) -> Answer:
        if not self._servers:
            self._open_servers()
        words = self._words
        if touched is not None:
            self._lay_rows(touched)
        self._number += 1
        self.sent_bytes += 0 if flags & (PULL | REFUSED) else self._num_bytes
        for place in self._places:
            words[place + _CHUNKS] = 0
        words[_FLAGS] = flags
        words[_SENT] = monotonic_ns()
        words[_PUSH] = self._number
        for name in self._names:
            self._host.ring(name)
        copied = []
        for server, place in zip(self._servers, self._places, strict=True):
            copied.append(0 if self._exact else self._copy(server, place))
            self._await(place + _ANSWERED, self._number)
        return self._answer(copied)

    def _await(self, word: int, number: int) -> None:
        """Wait until a word is at least so large."""
        words = self._words
        if self._patience.await_word(words, word, number):
            return
        while words[word] < number:
            self._host.wait()

    def _copy(self, server: _Kept, place: int) -> int:
        """Copy a server's chunks as it answers them; returns a version they are no older than."""
        words = self._words
        num_taken, num_chunks = 0, server.num_chunks
        self._await(place + _CHUNKS, 1)
        version: int = server.version[0]
        while num_taken < num_chunks:
            self._await(place + _CHUNKS, num_taken + 1)
            for index in range(num_taken, words[place + _CHUNKS]):
                server.copy(index)
                num_taken += 1
        return version

    def _open_servers(self) -> None:
        """Map the servers' arenas: they are sized before the start."""
        for index, name in enumerate(self._names):
            layout = _ServerLayout(self._place, self._chunks[index], index)
            kept = _Kept(self._host, name, layout, self._chunks[index], self._place.replica)
            self._servers.append(kept)

    def _answer(self, copied: list[int]) -> Answer:
        """Read what was answered; others may have been ahead of it when we copied."""
        words, first = self._words, self._places[0]
        self.received_bytes += self._num_bytes
        answered = [words[place + _VERSION] for place in self._places]
        grown = max(map(sub, answered, self._versions))
        self._versions = versions = [*map(max, answered, copied)]
        for place, version in zip(self._places, versions, strict=True):
            words[place + _VERSION] = version
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
        table = self._place.replica.table
        assert table is not None
        return stops_of(rows, table.num_rows, len(self._places))

    def pull_rows(self, rows: Tensor) -> Tensor:
        if not self._servers:
            self._open_servers()
        start, pulled = 0, []
        for server, stop in zip(self._servers, self._stops(rows), strict=True):
            pulled.append(server.rows(rows[start:stop]))
            start = stop
        values = pulled[0] if len(pulled) == 1 else torch.cat(pulled)
        self.received_bytes += values.nbytes
        return values

    def await_release(self) -> Answer:
        for place in self._places:
            while self._words[place + _REPLY_FLAGS] & WAIT:
                self._host.wait()
        return self._answer([0] * len(self._places))


@final
class _Kept:
    """What a server keeps, as a worker sees it."""

    def __init__(
        self, host: Host, name: str, layout: _ServerLayout, chunks: list[Chunk], replica: Replica
    ) -> None:
        self._host, memory = host, host.open(name)
        first, parameters = chunks[0].start, layout.parameters_in(memory)
        self.num_chunks = len(chunks)
        self._table = narrow(layout.table_in(memory)) if layout.width else parameters
        self._first_row, self._width = layout.rows.start, layout.width
        self.version = layout.version_in(memory)
        self._changes = layout.changes_in(memory)
        self._pairs = [
            (replica.parameters[e.start : e.stop], parameters[e.start - first : e.stop - first])
            for e in chunks
        ]

    def rows(self, rows: Tensor) -> Tensor:
        """Give rows of this server's part of the table, as they are now."""
        wanted = rows - self._first_row if self._first_row else rows
        return self._table.index_select(0, wanted).view(-1, self._width)

    def copy(self, index: int) -> None:
        """Bring a chunk into the replica, all of it as it was after some update."""
        changes, (mine, theirs) = self._changes, self._pairs[index]
        while True:
            seen = changes[index]
            mine.copy_(theirs)
            if seen == changes[index] and not seen & 1:
                return
            # The server is in the middle of a change, and may have died or been stopped there.
            self._host.check()


@final
class SharedServerLink(ServerLink):
    """Reads its part of every worker's gradients; workers copy the parameters themselves."""

    def __init__(self, place: Place, host: Host, chunks: list[Chunk], *, exact: bool) -> None:
        self._place = place
        self._host = host
        self._chunks = chunks
        self._names = [f"worker{rank}" for rank in range(place.num_workers)]
        self._seen = [0] * place.num_workers
        self._words: list[memoryview] = []
        self._gradients: list[list[Tensor]] = []
        self._exact = exact
        self._parameters: list[list[Tensor]] = []
        self._row_areas: list[tuple[Tensor, Tensor]] = []
        self._mine = _FIRST_SERVER + _WORDS * place.rank
        self._layout = _ServerLayout(place, chunks, place.rank)
        self._memory = host.open_own(self._layout.num_bytes)
        self.changes = self._layout.changes_in(self._memory)
        self._version = self._layout.version_in(self._memory)

    def place_parameters(self, initial: Tensor) -> Tensor:
        return self._layout.parameters_in(self._memory).copy_(initial)

    def make_table(self, num_rows: int, width: int, dtype: torch.dtype) -> Tensor:
        del num_rows, width, dtype
        return self._layout.table_in(self._memory)

    def _open_arenas(self) -> None:
        """Map the workers' arenas: they are sized before the start, and nobody pushes earlier."""
        whole = self._place.replica.parameters
        layout = _Layout(self._place.replica)
        for name in self._names:
            memory = self._host.open(name)
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
            woken_ns = monotonic_ns()
            for worker, words in enumerate(self._words):
                if words[_PUSH] != self._seen[worker]:
                    self._seen[worker] += 1
                    yield from self._push(worker, words[_FLAGS])
            self.busy_ns += monotonic_ns() - woken_ns
            self._host.wait()

    def _push(self, worker: int, flags: int) -> Iterator[Arrival]:
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
        first, mine_rows = self._layout.rows.start, rows[mine_only]
        return mine_rows - first if first else mine_rows, gradients[mine_only]

    def answer_rows(self, worker: int, values: Tensor, version: int) -> None:
        del worker, values, version
        raise AssertionError("workers read rows straight from the table")

    def answer(
        self, worker: int, chunk: Chunk, parameters: Tensor, version: int, flags: int
    ) -> None:
        if self._exact:
            self._parameters[worker][chunk.index].copy_(parameters)
        words, mine = self._words[worker], self._mine
        # A worker that waits to be released looks at the flags only, and may push at once then.
        words[mine + _CHUNKS] = chunk.index + 1
        if chunk is self._chunks[-1]:
            self._version[0] = words[mine + _VERSION] = version
            words[mine + _REPLY_FLAGS] = flags
            words[mine + _ANSWERED] = self._seen[worker]
        self._host.ring(self._names[worker])
