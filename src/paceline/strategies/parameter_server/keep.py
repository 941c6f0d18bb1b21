"""What a server keeps: its part of the parameters, and what it has counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from torch import Tensor

    from paceline.optim import Update
    from paceline.strategies.parameter_server.cuts import Chunk
    from paceline.strategies.parameter_server.link import Arrival, ServerLink


@final
@dataclass
class Tally:
    """What a server has counted since the start."""

    updates: int = 0
    dropped: int = 0
    refused: int = 0
    apply_ns: int = 0
    queue_ns: Counter[int] = field(default_factory=Counter)
    """For how long each worker's pushes waited before they were looked at."""
    last: Counter[int] = field(default_factory=Counter)
    """How often each worker was the last to arrive at a synchronous update."""
    late_ns: Counter[int] = field(default_factory=Counter)
    """By how much each worker arrived after the first, in all."""
    wait_ns: Counter[int] = field(default_factory=Counter)
    """For how long each worker waited for the last to arrive, in all."""

    def table(self) -> dict[str, Any]:
        """Give all as plain values."""
        return {
            "updates": self.updates,
            "dropped": self.dropped,
            "refused": self.refused,
            "apply_s": self.apply_ns / 1e9,
            "queue_s": self.queue_ns.total() / 1e9 if self.queue_ns else None,
            "last_arrivals": {f"worker{rank}": count for rank, count in sorted(self.last.items())},
            "late_by_worker_s": _seconds(self.late_ns),
            "wait_by_worker_s": _seconds(self.wait_ns),
            "queue_by_worker_s": _seconds(self.queue_ns),
        }


def _seconds(by_rank: Counter[int]) -> dict[str, float]:
    return {f"worker{rank}": ns / 1e9 for rank, ns in sorted(by_rank.items())}


@final
class Keep:
    """The parameters of one server, changed and sent chunk by chunk."""

    def __init__(
        self,
        parameters: Tensor,
        *,
        update: Update,
        row_update: Update | None,
        chunks: list[Chunk],
        link: ServerLink,
    ) -> None:
        self.chunks = chunks
        self.link = link
        self.version = 0
        self.tally = Tally()
        self._update = update
        self._row_update = row_update
        first = chunks[0].start
        self._changes = link.changes
        self._starts = [chunk.start - first for chunk in chunks]
        self._views = [parameters[each.start - first : each.stop - first] for each in chunks]

    def apply(self, chunk: Chunk, gradient: Tensor, number: int) -> None:
        """Apply a chunk of update `number`."""
        began_ns = monotonic_ns()
        index, changes = chunk.index, self._changes
        changes[index] += 1
        self._update.apply(gradient, number, self._starts[index])
        changes[index] += 1
        self.tally.apply_ns += monotonic_ns() - began_ns

    def apply_rows(self, rows: Tensor, gradients: Tensor, number: int) -> None:
        """Apply update `number` to some rows of the table, each named once."""
        assert self._row_update is not None
        began_ns = monotonic_ns()
        self._row_update.apply_rows(rows, gradients, number)
        self.tally.apply_ns += monotonic_ns() - began_ns

    def answer_rows(self, arrival: Arrival) -> None:
        """Send a worker the rows it asked for, as they are now."""
        assert self._row_update is not None
        assert arrival.rows is not None
        values = self._row_update.rows(arrival.rows)
        self.link.answer_rows(arrival.worker, values, self.version)

    def answer(self, worker: int, chunk: Chunk, flags: int) -> None:
        """Send a worker a chunk as it is now."""
        self.link.answer(worker, chunk, self._views[chunk.index], self.version, flags)

    def note_push(self, arrival: Arrival) -> None:
        """Note how long a push waited before its first chunk was looked at."""
        if arrival.sent_ns:
            self.tally.queue_ns[arrival.worker] += monotonic_ns() - arrival.sent_ns
