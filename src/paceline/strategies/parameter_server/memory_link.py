"""Gradients of each worker, and parameters of each server, in memory that all of a host share.

A worker computes its gradients right where the servers read them, and copies parameters from where
the servers keep them: a server itself copies nothing. Where a worker must have the parameters
exactly as they were when it was let go, a server writes them right where the worker computes on
them. A push is a number in the worker's arena and a ring of the servers' bells, a reply is the same
back.

Another worker's push may be applied while a worker copies; the word of a chunk, which is odd while
the chunk changes, then tells it to copy again. This relies on a processor that keeps stores in
order, as x86 does, or on the time that a call from Python takes.
"""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic_ns
from typing import TYPE_CHECKING, final

import torch

from paceline.comm.host_memory import Host, tensor_in
from paceline.comm.patience import Patience
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.cuts import Chunk, offsets, stops_of
from paceline.strategies.parameter_server.link import (
    PULL,
    REFUSED,
    STAND,
    VOID,
    WAIT,
    Answer,
    Touched,
    WorkerLink,
)
from paceline.strategies.parameter_server.memory_layout import (
    ANSWERED,
    FIRST_SERVER,
    FLAGS,
    PUSH,
    REPLY_FLAGS,
    ROWS_START,
    ROWS_STOP,
    SENT,
    VERSION,
    WORDS,
    ServerLayout,
    WorkerLayout,
    firsts_of,
    row_area,
    words_in,
)
from paceline.training.replica import Replica
from paceline.training.row_update import rows_of
from paceline.training.state import State, StateReader, attributes, whole_numbers

if TYPE_CHECKING:
    from torch import Tensor


@final
class SharedWorkerLink(WorkerLink):
    """Moves the replica's gradients into this worker's arena, and its parameters if need be."""

    def __init__(self, place: Place, host: Host, chunks: list[list[Chunk]], *, exact: bool) -> None:
        self._place = place
        self._host = host
        self._chunks = chunks
        self._names = place.roster.servers
        self._places = [FIRST_SERVER + WORDS * index for index, _ in enumerate(self._names)]
        replica = place.replica
        layout = WorkerLayout(replica, sum(map(len, chunks)))
        memory = host.open_own(layout.num_bytes)
        count, dtype = len(replica.parameters), replica.parameters.dtype
        replica.move_to(
            parameters=tensor_in(memory, dtype, count, layout.parameters)
            if exact
            else replica.parameters,
            gradients=tensor_in(memory, dtype, count, layout.gradients),
        )
        self._exact = exact
        # As numpy's arrays, which copy a few rows in half of torch's time.
        self._rows, self._row_gradients = (each.numpy() for each in row_area(memory, layout, dtype))
        self.wants_ascending = place.num_servers > 1  # each has a stretch of the table
        self._servers: list[_ServerMemory] = []
        self._words = words_in(memory)
        self._early, self._chunk_answers = layout.marks_in(memory)
        self._firsts = firsts_of(chunks)
        # Where one chunk is all there is, it comes with the word: so the server takes it.
        self._is_one = sum(map(len, chunks)) == 1
        self._is_early = False
        self._patience = Patience()
        self._number = 0
        self._num_bytes = replica.parameters.nbytes
        self._versions = [0] * place.num_servers

    def send_early(self, chunk: Chunk, flags: int = 0) -> None:
        if self._is_one:
            return
        number = self._number + 1
        self._is_early = True
        self._mark(chunk, -number if flags & REFUSED else number)
        self._host.ring(self._names[chunk.server])

    def _mark(self, chunk: Chunk, number: int) -> None:
        self._early[self._firsts[chunk.server] + chunk.index] = number

    def exchange(
        self, flags: int, touched: Touched | None = None, left_out: Collection[Chunk] = ()
    ) -> Answer:
        if not self._servers:
            self._open_servers()
        if touched is not None:
            self._lay_rows(touched)
        for chunk in left_out:
            self._mark(chunk, -self._number - 1)
        self.sent_bytes += 0 if flags & (PULL | REFUSED) else self._num_bytes
        self._push(flags)
        if self.meanwhile is not None and not flags & PULL:
            self.meanwhile()
        if len(self._servers) == 1:
            answer = self._answer_of_one(self._receive(self._servers[0], 0))
        else:
            answer = self._answer([self._receive(e, at) for at, e in enumerate(self._servers)])
        self._is_early = False
        return answer

    def _push(self, flags: int) -> None:
        """Tell all servers that there is something for them."""
        words = self._words
        self._number += 1
        words[FLAGS] = flags
        words[SENT] = monotonic_ns()
        words[PUSH] = self._number
        for name in self._names:
            self._host.ring(name)

    def _await(self, words: memoryview, index: int) -> None:
        """Wait until a word is the number of this push."""
        if self._patience.await_word(words, index, self._number):
            return
        while words[index] < self._number:
            self._host.wait()

    def _receive(self, server: _ServerMemory, number: int) -> int:
        """Wait for a server's answer and copy what it keeps; returns a version it is no older than.

        0 where the server itself has written it into the replica.
        """
        if not self._exact and (server.num_chunks > 1 or self._is_early):
            return self._copy(server, number)
        self._await(self._words, self._places[number] + ANSWERED)
        if self._exact:
            return 0
        # One chunk is copied once all is decided: that is one wait, and nothing to do again.
        version: int = server.version[0]
        server.copy(0)
        return version

    def _copy(self, server: _ServerMemory, number: int) -> int:
        """Copy a server's chunks as it answers them; returns a version they are no older than."""
        first, place = self._firsts[number], self._places[number]
        # What was sent early was sent from the last layers on.
        order = range(server.num_chunks)[:: -1 if self._is_early else 1]
        self._await(self._chunk_answers, first + order[0])
        version: int = server.version[0]
        for index in order:
            self._await(self._chunk_answers, first + index)
            server.copy(index)
        self._await(self._words, place + ANSWERED)
        if self._words[place + REPLY_FLAGS] & VOID:  # some may have been copied before the undoing
            for index in order:
                server.copy(index)
        return version

    def _open_servers(self) -> None:
        """Map the servers' arenas: they are sized before the start."""
        for index, name in enumerate(self._names):
            layout = ServerLayout(self._place, self._chunks[index], index)
            kept = _ServerMemory(self._host, name, layout, self._chunks[index], self._place.replica)
            self._servers.append(kept)

    def _answer(self, copied: list[int]) -> Answer:
        """Read what was answered; others may have been ahead of it when we copied."""
        words, versions = self._words, self._versions
        self.received_bytes += self._num_bytes
        flags = words[self._places[0] + REPLY_FLAGS] & ~VOID
        staleness = -1
        for index, place in enumerate(self._places):
            answered, version = words[place + VERSION], copied[index]
            staleness = max(staleness, answered - versions[index] - 1)
            versions[index] = words[place + VERSION] = max(answered, version)
            flags |= words[place + REPLY_FLAGS] & WAIT
        return Answer(versions[0], flags, staleness)

    def _answer_of_one(self, copied: int) -> Answer:
        """The same where there is one server, as for every push of a small model."""
        words, place, before = self._words, self._places[0], self._versions[0]
        self.received_bytes += self._num_bytes
        answered = words[place + VERSION]
        version = max(answered, copied)
        self._versions[0] = words[place + VERSION] = version
        return Answer(version, words[place + REPLY_FLAGS] & ~VOID, answered - before - 1)

    def _lay_rows(self, touched: Touched) -> None:
        """Put the batch's rows and their gradients where the servers read them."""
        rows, gradients = touched
        count = rows.numel()
        if count > len(self._rows):
            raise ValueError(f"a batch touches {count} rows, more than {len(self._rows)}")
        self._rows[:count] = rows.numpy()
        self._row_gradients[:count] = gradients.numpy()
        self.sent_bytes += rows.nbytes + gradients.nbytes
        start = 0
        for place, stop in zip(self._places, self._stops(rows), strict=True):
            self._words[place + ROWS_START], self._words[place + ROWS_STOP] = start, stop
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

    def state(self) -> State:
        words, places = self._words, self._places
        return {
            **attributes(self, "sent_bytes", "received_bytes"),
            "versions": whole_numbers(self._versions),
            "answered": whole_numbers(words[place + VERSION] for place in places),
            "flags": whole_numbers(words[place + REPLY_FLAGS] for place in places),
        }

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "sent_bytes", "received_bytes")
            count = len(self._places)
            self._versions = fields.whole_numbers("versions", count)
            answered = fields.whole_numbers("answered", count)
            flags = fields.whole_numbers("flags", count)
        for place, version, flag in zip(self._places, answered, flags, strict=True):
            self._words[place + VERSION] = version
            self._words[place + REPLY_FLAGS] = flag

    def catch_up(self) -> None:
        self._push(STAND)
        for place in self._places:
            self._await(self._words, place + ANSWERED)

    def await_release(self) -> Answer:
        for place in self._places:
            while self._words[place + REPLY_FLAGS] & WAIT:
                self._host.wait()
        return self._answer([0] * len(self._places))


@final
class _ServerMemory:
    """What a server keeps, as a worker sees it."""

    def __init__(
        self, host: Host, name: str, layout: ServerLayout, chunks: list[Chunk], replica: Replica
    ) -> None:
        self._host, memory = host, host.open(name)
        parameters = layout.parameters_in(memory)
        self.num_chunks = len(chunks)
        self._table = layout.table_in(memory)[:, : layout.width] if layout.width else parameters
        self._column = self._table.numpy()[:, 0] if layout.width == 1 else None
        self._first_row = layout.rows.start
        self.version = layout.version_in(memory)
        self._changes = layout.changes_in(memory)
        self._pairs = [
            (replica.parameters[e.start : e.stop], parameters[start : start + e.num_values])
            for start, e in zip(offsets(chunks), chunks, strict=True)
        ]

    def rows(self, rows: Tensor) -> Tensor:
        """Give rows of this server's part of the table, as they are now."""
        wanted = rows - self._first_row if self._first_row else rows
        return rows_of(self._table, self._column, wanted)

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
