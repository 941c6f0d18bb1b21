"""A server's end of the memory that it shares with its workers."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic_ns
from typing import TYPE_CHECKING, final

import numpy as np

from paceline.comm.host_memory import Host, tensor_in
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.cuts import Chunk
from paceline.strategies.parameter_server.link import (
    BARE,
    DECIDED,
    KEPT,
    PULL,
    REFUSED,
    VOID,
    WORD,
    Arrival,
    ServerLink,
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

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch
    from torch import Tensor


@final
class SharedServerLink(ServerLink):
    """Reads its part of every worker's gradients; workers copy the parameters themselves."""

    def __init__(self, place: Place, host: Host, dealt: list[list[Chunk]], *, exact: bool) -> None:
        """`dealt` are the chunks of all servers."""
        self._place = place
        self._host = host
        self._num_dealt = sum(map(len, dealt))
        self._first = firsts_of(dealt)[place.rank]
        self._chunks = chunks = dealt[place.rank]
        self._names = place.worker_names
        self._seen = dict.fromkeys(self._names, 0)
        self._words: dict[int, memoryview] = {}
        self._early: dict[int, npt.NDArray[np.int64]] = {}
        self._chunk_answers: dict[int, memoryview] = {}
        # Which chunks of a worker's push were seen before its word.
        self._taken: dict[int, set[int]] = {worker: set() for worker in self._names}
        self._gradients: dict[int, list[Tensor]] = {}
        self._exact = exact
        self._parameters: dict[int, list[Tensor]] = {}
        self._row_areas: dict[int, tuple[Tensor, Tensor]] = {}
        self._mine = FIRST_SERVER + WORDS * place.rank
        self._layout = ServerLayout(place, chunks, place.rank)
        self._memory = host.open_own(self._layout.num_bytes)
        self.changes = self._layout.changes_in(self._memory)
        self._version = self._layout.version_in(self._memory)
        self._has_table = place.replica.table is not None
        self._is_cut = len(chunks) > 1
        # Where one chunk is all there is, a push is one arrival.
        self._is_one = self._num_dealt == 1

    def place_parameters(self, initial: Tensor) -> Tensor:
        return self._layout.parameters_in(self._memory).copy_(initial)

    def make_table(self, num_rows: int, num_values: int, dtype: torch.dtype) -> Tensor:
        del num_rows, num_values, dtype
        return self._layout.table_in(self._memory)

    def restart(self, version: int) -> None:
        self._version[0] = version

    def _open_arenas(self) -> None:
        """Map the workers' arenas: they are sized before the start, and nobody pushes earlier."""
        whole = self._place.replica.parameters
        layout = WorkerLayout(self._place.replica, self._num_dealt)
        mine = slice(self._first, self._first + len(self._chunks))
        for worker, name in self._names.items():
            memory = self._host.open(name)
            gradients, parameters = (
                tensor_in(memory, whole.dtype, len(whole), offset)
                for offset in (layout.gradients, layout.parameters)
            )
            self._row_areas[worker] = row_area(memory, layout, whole.dtype)
            self._words[worker] = words_in(memory)
            early, answered = layout.marks_in(memory)
            self._early[worker] = np.frombuffer(early[mine], np.int64)
            self._chunk_answers[worker] = answered[mine]
            self._gradients[worker] = [gradients[each.start : each.stop] for each in self._chunks]
            self._parameters[worker] = [parameters[each.start : each.stop] for each in self._chunks]

    def arrivals(self) -> Iterator[Arrival]:
        self._host.wait()
        self._open_arenas()
        while True:
            woken_ns = monotonic_ns()
            for worker, words in self._words.items():
                # A push that is void before its word is seen may be followed by another: one ring.
                while words[PUSH] != self._seen[worker]:
                    self._seen[worker] += 1
                    if self._is_one:
                        yield self._with_word(worker, 0, words[FLAGS])
                    else:
                        yield from self._push(worker, words[FLAGS])
                if self._is_cut:
                    yield from self._news(worker, self._seen[worker] + 1)
            self.busy_ns += monotonic_ns() - woken_ns
            self._host.wait()

    def _news(self, worker: int, number: int) -> Iterator[Arrival]:
        """Look at what was sent early."""
        marks, taken = self._early[worker], self._taken[worker]
        # The newest first: they are of earlier layers, and needed earlier.
        for index in np.flatnonzero(np.abs(marks) == number).tolist():
            if index not in taken:
                taken.add(index)
                yield self._arrival(worker, index, 0, number)

    def _arrival(self, worker: int, index: int, flags: int, number: int) -> Arrival:
        if not flags & WORD and self._is_left_out(worker, index, number):
            flags |= REFUSED | BARE
        version, gradient = (
            self._words[worker][self._mine + VERSION],
            self._gradients[worker][index],
        )
        return Arrival(worker, self._chunks[index], flags, version, gradient, push=number)

    def _is_left_out(self, worker: int, index: int, number: int) -> bool:
        """Whether a chunk is refused by itself."""
        return bool(self._early[worker][index] == -number)

    def _with_word(self, worker: int, index: int, flags: int) -> Arrival:
        """Give a chunk along with what a push has once: its word, when it was sent, its rows."""
        words, number = self._words[worker], self._seen[worker]
        flags |= 0 if flags & PULL else WORD
        flags |= BARE if flags & (PULL | REFUSED) else 0
        version, gradient = words[self._mine + VERSION], self._gradients[worker][index]
        rows = row_gradients = None
        if self._has_table:
            rows, row_gradients = self._touched(worker)
        chunk, sent_ns = self._chunks[index], words[SENT]
        return Arrival(
            worker, chunk, flags, version, gradient, sent_ns, rows, row_gradients, number
        )

    def _push(self, worker: int, flags: int) -> Iterator[Arrival]:
        """The word, and what was not sent early."""
        number = self._seen[worker]
        taken, self._taken[worker] = self._taken[worker], set()
        has_values = not flags & (PULL | REFUSED)
        first, *rest = [each for each in range(len(self._chunks)) if each not in taken] or [-1]
        if not has_values or first < 0 or self._is_left_out(worker, first, number):
            first, rest = 0, [first, *rest] if has_values and first >= 0 else []
            flags |= BARE
        yield self._with_word(worker, first, flags)
        for index in rest:
            yield self._arrival(worker, index, 0, number)

    def _touched(self, worker: int) -> tuple[Tensor, Tensor]:
        """The rows of our part that a push touches, numbered within it, and their gradients."""
        words, mine = self._words[worker], self._mine
        mine_only = slice(words[mine + ROWS_START], words[mine + ROWS_STOP])
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
        if self._is_one:  # nothing came before its word, and its worker waits for the decision
            number = self._seen[worker]
        else:
            number = self._answered(worker)
            self._chunk_answers[worker][chunk.index] = number
        if flags & DECIDED:
            self._decide(worker, version, flags, number)
        else:
            self._host.ring(self._names[worker])

    def _answered(self, worker: int) -> int:
        """The number of the push that is answered, of which the word may not be in yet."""
        return self._seen[worker] + bool(self._taken[worker])

    def decide(self, worker: int, version: int, flags: int) -> None:
        self._decide(worker, version, flags, self._answered(worker))

    def _decide(self, worker: int, version: int, flags: int, number: int) -> None:
        words, mine = self._words[worker], self._mine
        if not flags & KEPT:
            self._version[0] = words[mine + VERSION] = version
        if flags & VOID:  # nobody waits for chunks that will not be answered
            for index in range(len(self._chunks)):
                self._chunk_answers[worker][index] = number
        # A worker that waits to be released looks at the flags only, and may push at once then.
        words[mine + REPLY_FLAGS] = flags & ~DECIDED
        words[mine + ANSWERED] = number
        self._host.ring(self._names[worker])
