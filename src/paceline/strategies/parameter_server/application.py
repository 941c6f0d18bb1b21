"""How gradients become updates: each on arrival, or the average of so many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import monotonic_ns
from typing import TYPE_CHECKING, final

from paceline.strategies.parameter_server.link import (
    LAST,
    LEAVE,
    REFUSED,
    RELEASE,
    WAIT,
    Arrival,
)

if TYPE_CHECKING:
    from torch import Tensor

    from paceline.strategies.parameter_server.keep import Keep
    from paceline.strategies.parameter_server.rules import Admission


class Application(ABC):
    """Takes pushes, chunk by chunk, and sees to it that each chunk is answered."""

    keep: Keep

    @abstractmethod
    def take(self, arrival: Arrival) -> None:
        """Take a chunk of a push."""

    @abstractmethod
    def pull(self, arrival: Arrival) -> None:
        """Answer a worker that only wants the newest parameters."""


@final
class Each(Application):
    """Every push is an update of its own, applied when it arrives."""

    def __init__(
        self, keep: Keep, admission: Admission, num_workers: int, most_steps: int | None
    ) -> None:
        self.keep = keep
        self._admission = admission
        self._most_steps = most_steps
        # Every worker that starts has leave to make one step; the run ends when all are used up.
        self._num_leaves = num_workers if most_steps is None else min(num_workers, most_steps)
        self._num_begun = 0
        self._number = [0] * num_workers
        self._waits = [False] * num_workers
        self._last_index = len(keep.chunks) - 1

    def take(self, arrival: Arrival) -> None:
        worker, chunk, flags = arrival.worker, arrival.chunk, arrival.flags
        keep = self.keep
        if chunk.index == 0:
            keep.note_push(arrival)
            self._begin(worker, arrival)
        if not flags & REFUSED:
            keep.apply(chunk, arrival.gradient, self._number[worker])
            if arrival.rows is not None and arrival.row_gradients is not None:
                keep.apply_rows(arrival.rows, arrival.row_gradients, self._number[worker])
        if chunk.index != self._last_index:
            keep.answer(worker, chunk, 0)
            return
        keep.answer(worker, chunk, self._complete(worker, flags))
        for each in self._admission.released():
            self._release(each)

    def _begin(self, worker: int, arrival: Arrival) -> None:
        """Count the push; chunks of several pushes may be under way at once."""
        if arrival.flags & REFUSED:
            self.keep.tally.refused += 1
            return
        self._num_begun += 1
        self._number[worker] = self._num_begun

    def _complete(self, worker: int, flags: int) -> int:
        """The push is applied whole: may its worker go on?"""
        if not flags & REFUSED:
            self.keep.version += 1
            self.keep.tally.updates += 1
        if not flags & LAST and self._may_step_again(flags):
            self._waits[worker] = not self._admission.complete(worker)
            return WAIT if self._waits[worker] else 0
        self._admission.leave(worker)
        return LAST

    def _may_step_again(self, flags: int) -> bool:
        if self._most_steps is None or flags & REFUSED:  # a refused push used nothing up
            return True
        self._num_leaves += 1
        return self._num_leaves <= self._most_steps

    def _release(self, worker: int) -> None:
        self._waits[worker] = False
        for chunk in self.keep.chunks:
            self.keep.answer(worker, chunk, RELEASE)

    def pull(self, arrival: Arrival) -> None:
        waits = WAIT if self._waits[arrival.worker] else 0
        self.keep.answer(arrival.worker, arrival.chunk, waits)


@final
class Average(Application):
    """An update is the average of the first `needed` gradients, added in the order of the ranks.

    A chunk's new parameters leave as soon as its gradients are in, while later chunks still
    arrive. A push that comes when the update has its gradients is too late: it is dropped, and
    answered with the parameters of that update. So is one that waits for gradients which nobody is
    left to bring: of several servers each may have dropped another's last one.

    An update one of whose gradients is not finite is refused whole: the parameters, and their
    version, stay what they were.
    """

    def __init__(self, keep: Keep, needed: int, num_workers: int, most_steps: int | None) -> None:
        self.keep = keep
        self._needed = needed
        self._num_there = num_workers
        self._most_steps = most_steps
        self._is_over = False
        self._members: list[int] = []
        self._arrived_ns: list[int] = []
        self._late: set[int] = set()
        self._stops = False
        self._num_open = len(keep.chunks)
        self._gradients: list[dict[int, Tensor | None]] = [{} for _ in keep.chunks]
        self._touched: dict[int, Arrival] = {}
        self._too_late: list[list[int]] = [[] for _ in keep.chunks]
        self._is_closed = [False] * len(keep.chunks)

    def take(self, arrival: Arrival) -> None:
        worker, chunk, flags = arrival.worker, arrival.chunk, arrival.flags
        if chunk.index == 0:
            self._begin(arrival)
        if worker in self._late:
            self._answer_late(arrival)
            return
        gradients = self._gradients[chunk.index]
        gradients[worker] = None if flags & REFUSED else arrival.gradient
        if arrival.rows is not None and not flags & REFUSED:
            self._touched[worker] = arrival
        if len(gradients) == self._needed:
            self._close(arrival)

    def _begin(self, arrival: Arrival) -> None:
        """A push begins: it belongs to this update, or comes too late for it."""
        worker, flags = arrival.worker, arrival.flags
        self.keep.note_push(arrival)
        self._late.discard(worker)
        if flags & LAST:
            self._stops = True
        if flags & REFUSED:
            self.keep.tally.refused += 1
        is_full = len(self._members) == self._needed
        if is_full or self._is_over or arrival.version < self.keep.version:
            self._late.add(worker)
            self.keep.tally.dropped += 1
            return
        self._members.append(worker)
        self._arrived_ns.append(arrival.sent_ns or monotonic_ns())

    def _close(self, arrival: Arrival) -> None:
        """All gradients of a chunk are in: average, apply, answer."""
        chunk, keep = arrival.chunk, self.keep
        by_rank = sorted(self._gradients[chunk.index].items())
        present = [gradient for _, gradient in by_rank if gradient is not None]
        is_refused = len(present) < len(by_rank)
        if not is_refused:
            keep.apply(chunk, self._mean(present), keep.version + 1)
            if self._touched and self._num_open == 1:
                keep.apply_rows(*self._joined_rows(len(present)), keep.version + 1)
        self._gradients[chunk.index] = {}
        self._is_closed[chunk.index] = True
        self._num_open -= 1
        too_late, self._too_late[chunk.index] = self._too_late[chunk.index], []
        if self._num_open == 0:
            self._finish_update(is_refused=is_refused)
        flags = LAST if self._stops else 0
        for worker, _ in by_rank:
            keep.answer(worker, chunk, flags | REFUSED if is_refused else flags)
        for worker in too_late:
            keep.answer(worker, chunk, flags)

    def _mean(self, gradients: list[Tensor]) -> Tensor:
        total = gradients[0]
        if len(gradients) > 1:
            began_ns = monotonic_ns()
            for gradient in gradients[1:]:
                total.add_(gradient)
            total.div_(len(gradients))
            self.keep.tally.apply_ns += monotonic_ns() - began_ns
        return total

    def _joined_rows(self, num_present: int) -> tuple[Tensor, Tensor]:
        """Average the rows' gradients too, a row that several workers touched summed once."""
        import torch

        from paceline.rows import distinct

        touched = [arrival for _, arrival in sorted(self._touched.items())]
        named = torch.cat([arrival.rows for arrival in touched if arrival.rows is not None])
        rows, positions = distinct(named)
        values = [arrival.row_gradients for arrival in touched]
        gradients = torch.cat([each for each in values if each is not None])
        total = gradients.new_zeros(len(rows), gradients.shape[1])
        return rows, total.index_add_(0, positions, gradients).div_(num_present)

    def _finish_update(self, *, is_refused: bool) -> None:
        keep = self.keep
        keep.version += not is_refused
        keep.tally.updates += not is_refused
        self._note_arrivals()
        if self._most_steps is not None and keep.version >= self._most_steps:
            self._stops = True
        self._is_over = self._stops
        self._members, self._arrived_ns, self._touched = [], [], {}
        self._num_open = len(keep.chunks)
        self._is_closed = [False] * len(keep.chunks)

    def _note_arrivals(self) -> None:
        tally = self.keep.tally
        first_ns, last_ns = min(self._arrived_ns), max(self._arrived_ns)
        for worker, arrived_ns in zip(self._members, self._arrived_ns, strict=True):
            tally.late_ns[worker] += arrived_ns - first_ns
            tally.wait_ns[worker] += last_ns - arrived_ns
        tally.last[self._members[self._arrived_ns.index(last_ns)]] += 1

    def _answer_late(self, arrival: Arrival) -> None:
        """Answer a push that was dropped: at once, or when the chunk it waits for is closed."""
        index = arrival.chunk.index
        if self._members and not self._is_closed[index]:
            self._too_late[index].append(arrival.worker)
        else:
            self.keep.answer(arrival.worker, arrival.chunk, LAST if self._stops else 0)

    def pull(self, arrival: Arrival) -> None:
        if arrival.flags & LEAVE and arrival.chunk.index == 0:
            self._num_there -= 1
            if self._num_there < self._needed:
                self._end()
        self.keep.answer(arrival.worker, arrival.chunk, LAST if self._stops else 0)

    def _end(self) -> None:
        """Nobody is left to complete the update: drop what came for it, and let its workers go."""
        self._is_over = self._stops = True
        self.keep.tally.dropped += len(self._members)
        self._late.update(self._members)
        self._members, self._arrived_ns, self._touched = [], [], {}
        for chunk, gradients in zip(self.keep.chunks, self._gradients, strict=True):
            waiting = [*gradients, *self._too_late[chunk.index]]
            gradients.clear()
            self._too_late[chunk.index] = []
            for worker in waiting:
                self.keep.answer(worker, chunk, LAST)
