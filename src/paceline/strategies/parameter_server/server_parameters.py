"""What a server keeps: its part of the parameters, and what it has counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, final

from paceline.seats import seat_name
from paceline.strategies.parameter_server.cuts import offsets
from paceline.strategies.parameter_server.link import DECIDED
from paceline.training.copies import without
from paceline.training.state import Adopting, State, Stateful, StateReader, attributes, by_number

if TYPE_CHECKING:
    from torch import Tensor

    from paceline.strategies.parameter_server.cuts import Chunk
    from paceline.strategies.parameter_server.link import Arrival, ServerLink
    from paceline.training.optim import Update
    from paceline.training.row_update import RowUpdate


_COUNTED: Final = ("updates", "dropped", "refused", "apply_ns")
_BY_WORKER: Final = ("queue_ns", "last", "late_ns", "wait_ns")


@final
@dataclass
class Tally(Stateful):
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
            "last_arrivals": _by_name(self.last),
            "late_by_worker_s": _seconds(self.late_ns),
            "wait_by_worker_s": _seconds(self.wait_ns),
            "queue_by_worker_s": _seconds(self.queue_ns),
        }

    def state(self) -> State:
        by_worker = {name: by_number(getattr(self, name)) for name in _BY_WORKER}
        return {**attributes(self, *_COUNTED), **by_worker}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, *_COUNTED)
            for name in _BY_WORKER:
                setattr(self, name, fields.counts_by_number(name))


def _by_name(by_number: Counter[int]) -> dict[str, int]:
    return {seat_name("worker", number): count for number, count in sorted(by_number.items())}


def _seconds(by_number: Counter[int]) -> dict[str, float]:
    return {name: ns / 1e9 for name, ns in _by_name(by_number).items()}


@final
class ServerParameters(Adopting):
    """The parameters of one server, changed and sent chunk by chunk."""

    def __init__(
        self,
        parameters: Tensor,
        *,
        update: Update,
        row_update: RowUpdate | None,
        chunks: list[Chunk],
        link: ServerLink,
    ) -> None:
        self.chunks = chunks
        self.link = link
        self.version = 0
        self.tally = Tally()
        self._update = update
        self._row_update = row_update
        self._parameters = parameters
        self._changes = link.changes
        self._starts = offsets(chunks)
        self._views = [
            parameters[start : start + each.num_values]
            for start, each in zip(self._starts, chunks, strict=True)
        ]
        # What chunks were before an update that is not decided: of parameters and states.
        self._before: dict[int, list[Tensor]] = {}

    @property
    def is_tentative(self) -> bool:
        """Whether something was applied that may have to be undone."""
        return bool(self._before)

    def keep_before(self, chunk: Chunk) -> None:
        """Remember a chunk as it is, so that what is applied to it next can be undone."""
        began_ns = monotonic_ns()
        self._before[chunk.index] = [each.clone() for each in self._stretches(chunk.index)]
        self.tally.apply_ns += monotonic_ns() - began_ns

    def commit(self) -> None:
        """What was applied stays."""
        self._before.clear()

    def undo(self) -> list[Chunk]:
        """Bring back what was remembered; returns the chunks that changed."""
        for index, before in self._before.items():
            self._changes[index] += 1
            for now, was in zip(self._stretches(index), before, strict=True):
                now.copy_(was)
            self._changes[index] += 1
        undone = [self.chunks[index] for index in sorted(self._before)]
        self._before.clear()
        return undone

    def _stretches(self, index: int) -> list[Tensor]:
        """A chunk's parameters and states."""
        stretch = slice(self._starts[index], self._starts[index] + self.chunks[index].num_values)
        return [self._views[index], *(state[stretch] for state in self._update.states)]

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
        self._row_update.apply(rows, gradients, number)
        self.tally.apply_ns += monotonic_ns() - began_ns

    def answer_rows(self, arrival: Arrival) -> None:
        """Send a worker the rows it asked for, as they are now."""
        assert self._row_update is not None
        assert arrival.rows is not None
        values = self._row_update.rows(arrival.rows)
        self.link.answer_rows(arrival.worker, values, self.version)

    def answer(self, worker: int, chunk: Chunk, flags: int, version: int | None = None) -> None:
        """Send a worker a chunk as it is now, of this version or the one that is decided."""
        if version is None:
            version = self.version
        self.link.answer(worker, chunk, self._views[chunk.index], version, flags)

    def answer_all(self, worker: int, flags: int) -> None:
        """Send a worker all chunks; the last says that there are no more."""
        for chunk in self.chunks[:-1]:
            self.answer(worker, chunk, flags)
        self.answer(worker, self.chunks[-1], flags | DECIDED)

    def decide(self, worker: int, flags: int, version: int | None = None) -> None:
        """Tell a worker what was decided, where no answer could say so."""
        self.link.decide(worker, self.version if version is None else version, flags | DECIDED)

    def state(self) -> State:
        rows = self._row_update
        return {
            **attributes(self, "version", "tally", "link", "_parameters", "_update"),
            **({} if rows is None else {"table": rows.table(), "row_update": rows.state()}),
        }

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "tally", "link")
            self._load_learnt(fields)

    def adopt(self, state: State) -> None:
        with StateReader(without(state, ("tally", "link"))) as fields:
            self._load_learnt(fields)
        self.tally.updates = self.version

    def _load_learnt(self, fields: StateReader) -> None:
        fields.attributes(self, "version", "_parameters", "_update")
        if self._row_update is not None:
            fields.fill("table", self._row_update.parameters)
            fields.part("row_update", self._row_update)
        self.link.restart(self.version)

    def note_push(self, arrival: Arrival) -> None:
        """Note how long a push waited before its first chunk was looked at."""
        if arrival.sent_ns:
            self.tally.queue_ns[arrival.worker] += monotonic_ns() - arrival.sent_ns
