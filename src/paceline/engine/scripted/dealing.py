"""Which part of a script's data each worker takes: of indices, of batches, of rows as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Protocol, final

from torch.utils.data import IterableDataset, Sampler, get_worker_info

from paceline.engine.scripted.drawing import SharedDraws
from paceline.engine.scripted.sharing import EvaluatedPart


class Turns(Protocol):
    """Whom a loader tells of its batches."""

    @property
    def is_over(self) -> bool:
        """Whether there is no next batch."""

    @property
    def is_evaluating(self) -> bool:
        """Whether batches are not trained on: then each worker that asks is given all rows."""

    @property
    def share(self) -> EvaluatedPart | None:
        """Which of them instead, where workers share an evaluation."""

    def load(self, batches: Iterator[Any]) -> Any:
        """Take the next batch, and note how long that took."""

    def cut_short(self) -> None:
        """Note that a loader ends here since the run does, whatever it would have given."""

    def pause(self) -> None:
        """Note that something else than training may follow."""

    def say(self, note: str) -> None:
        """Tell the user something, once."""


@final
class Dealer:
    """Which part of what there is a worker takes.

    What there is, is drawn from the random numbers of all, if there are such: indices only, since
    what becomes of rows, such as a random crop, may draw as many numbers as it likes.
    """

    def __init__(self, rank: int, num_workers: int, stream: SharedDraws | None = None) -> None:
        self.rank = rank
        self.num_workers = num_workers
        self.stream = stream if num_workers > 1 else None

    def _drawn(self, source: Iterable[Any], at_a_time: int) -> Iterable[Any]:
        return source if self.stream is None else self.stream.drawn(source, at_a_time)

    def slices(self, indices: Iterable[Any], batch: int) -> Iterator[Any]:
        """Yield this worker's part of every whole global batch."""
        first = self.rank * batch
        for each in self._rounds(indices, batch * self.num_workers):
            yield from each[first : first + batch]

    def every(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield every N-th, of whole rounds only."""
        for each in self._rounds(batches, self.num_workers):
            yield each[self.rank]

    def _rounds(self, source: Iterable[Any], size: int) -> Iterator[list[Any]]:
        rest = iter(self._drawn(source, size))
        while len(found := [*islice(rest, size)]) == size:
            yield found


@final
class DealtSampler(Sampler[Any]):
    """The user's own sampler, of which each worker takes its part."""

    def __init__(self, sampler: Any, batch: int, dealer: Dealer, turns: Turns) -> None:
        self.sampler = sampler
        self._batch = batch
        self._dealer = dealer
        self._turns = turns

    def __iter__(self) -> Iterator[Any]:
        return self._dealer.slices(self.sampler, self._batch)

    def __len__(self) -> int:
        if self._turns.is_evaluating:
            return num_evaluated(len(self.sampler), self._turns)
        whole: int = len(self.sampler) // (self._batch * self._dealer.num_workers)
        return whole * self._batch


@final
class DealtBatches(Sampler[Any]):
    """The same for a sampler that gives whole batches."""

    def __init__(self, sampler: Any, dealer: Dealer, turns: Turns) -> None:
        self.sampler = sampler
        self._dealer = dealer
        self._turns = turns

    def __iter__(self) -> Iterator[Any]:
        return self._dealer.every(self.sampler)

    def __len__(self) -> int:
        if self._turns.is_evaluating:
            return num_evaluated(len(self.sampler), self._turns)
        whole: int = len(self.sampler) // self._dealer.num_workers
        return whole


def num_evaluated(total: int, turns: Turns) -> int:
    """How many of so many an evaluation reads here: all, or a worker's share."""
    return total if turns.share is None else len(turns.share.part(total))


@final
class DealtItems(IterableDataset[Any]):
    """An iterable dataset, of which each worker keeps its part."""

    def __init__(self, dataset: IterableDataset[Any], batch: int, dealer: Dealer) -> None:
        self.dataset = dataset
        self._batch = batch
        self._dealer = dealer

    def __iter__(self) -> Iterator[Any]:
        dealer = self._dealer
        if get_worker_info() is not None:  # processes of a loader draw the same by their seeds
            dealer = Dealer(dealer.rank, dealer.num_workers)
        return dealer.slices(self.dataset, self._batch)
