"""Parameters and gradients of each worker in memory that the servers of its host share.

A worker computes its gradients right where the servers read them, and the servers write new
parameters right where the worker computes on them: nothing is copied on the way. A push is a
number in the arena's header and a ring of the servers' bells, a reply is the same back.

The arena: a page of 64-bit words, the gradients, the parameters. The first words are the push's
number, its flags and when it was sent; then four words a server: the number of the push it has
answered, the version of the parameters it wrote, and the reply's flags.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from operator import sub
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, final

from paceline.comm.shared import Host, tensor_in
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.cuts import Chunk
from paceline.strategies.parameter_server.link import (
    PULL,
    REFUSED,
    WAIT,
    Answer,
    Arrival,
    ServerLink,
    WorkerLink,
)

if TYPE_CHECKING:
    from torch import Tensor

_HEADER_BYTES: Final = 4096
_PUSH, _FLAGS, _SENT, _FIRST_SERVER = 0, 1, 2, 8
_ANSWERED, _VERSION, _REPLY_FLAGS, _WORDS = 0, 1, 2, 4
MOST_SERVERS: Final = (_HEADER_BYTES // 8 - _FIRST_SERVER) // _WORDS


def _words(memory: mmap.mmap) -> memoryview:
    return memoryview(memory)[:_HEADER_BYTES].cast("q")


@final
class SharedWorkerLink(WorkerLink):
    """Moves the replica into this worker's arena."""

    def __init__(self, place: Place, host: Host) -> None:
        self._host = host
        self._servers = [f"server{index}" for index in range(place.num_servers)]
        self._places = [_FIRST_SERVER + _WORDS * index for index in range(place.num_servers)]
        replica = place.replica
        num_bytes = replica.parameters.nbytes
        memory = host.open_own(_HEADER_BYTES + 2 * num_bytes)
        count, dtype = len(replica.parameters), replica.parameters.dtype
        replica.move_to(
            parameters=tensor_in(memory, dtype, count, _HEADER_BYTES + num_bytes),
            gradients=tensor_in(memory, dtype, count, _HEADER_BYTES),
        )
        self._words = _words(memory)
        self._number = 0
        self._num_bytes = num_bytes
        self._versions = [0] * place.num_servers

    def exchange(self, flags: int) -> Answer:
        words = self._words
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
        self._mine = _FIRST_SERVER + _WORDS * place.rank

    def _open_arenas(self) -> None:
        """Map the workers' arenas: they are sized before the start, and nobody pushes earlier."""
        whole = self._place.replica.parameters
        for rank in range(self._place.num_workers):
            memory = self._host.open(f"worker{rank}")
            gradients, parameters = (
                tensor_in(memory, whole.dtype, len(whole), offset)
                for offset in (_HEADER_BYTES, _HEADER_BYTES + whole.nbytes)
            )
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
        for chunk, gradient in zip(self._chunks, self._gradients[worker], strict=True):
            yield Arrival(worker, chunk, flags, version, gradient, sent_ns)

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
