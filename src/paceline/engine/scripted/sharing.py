"""An evaluation that workers share: which rows of a loader each of them is given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, final

from torch.utils.data import BatchSampler, DataLoader, Dataset, Subset

from paceline.engine.scripted.drawing import SharedDraws
from paceline.errors import LoopError


@final
class EvaluatedPart:
    """One worker's part of every loader, as long as an evaluation lasts; counts its rows.

    All parts together are all rows, each once, a short last batch among them.
    """

    def __init__(self, number: int, count: int, stream: SharedDraws | None) -> None:
        """`stream`: the random numbers that all workers draw alike."""
        self.num_rows = 0
        self.has_read = False
        """Whether any loader was asked for its batches."""
        self._number = number
        self._count = count
        self._stream = stream

    def part(self, total: int) -> range:
        """Give the positions of this worker's part among so many."""
        first, last = (each * total // self._count for each in (self._number, self._number + 1))
        return range(first, last)

    def counted(self, batches: Iterable[Any], rows_in: Callable[[object], int]) -> Iterator[Any]:
        """Yield batches, and note how many rows they have."""
        self.has_read = True
        for each in batches:
            self.num_rows += rows_in(each)
            yield each

    def every(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield every N-th batch, where rows cannot be told apart before they are read."""
        drawn = batches if self._stream is None else self._stream.drawn(batches, self._count)
        return islice(drawn, self._number, None, self._count)

    def begun(self, loader: DataLoader[Any]) -> Iterator[Any]:
        """Begin to read a loader; what it draws for itself is drawn alike by all."""
        with contextlib.nullcontext() if self._stream is None else self._stream:
            return iter(loader)

    def num_of(self, total: int) -> int:
        """How many of so many batches `every` yields."""
        return len(range(self._number, total, self._count))

    def indices(self, sampler: Iterable[Any]) -> list[Any]:
        """Give this worker's part of what a sampler gives, in its order."""
        with contextlib.nullcontext() if self._stream is None else self._stream:
            drawn = [*sampler]
        part = self.part(len(drawn))
        return drawn[part.start : part.stop]

    def subset(self, dataset: Dataset[Any]) -> Subset[Any]:
        """Give a dataset of this worker's size: what a script divides its sums by."""
        return Subset(dataset, self.part(len(dataset)))  # type: ignore[arg-type]

    def num_batches(self, given: DataLoader[Any]) -> int:
        """How many batches of a map-style loader are this worker's."""
        batches: Any = given.batch_sampler
        if type(batches) is not BatchSampler:
            return len(self.part(len(given)))
        rows = len(self.part(len(batches.sampler)))  # type: ignore[arg-type]
        return rows // batches.batch_size if batches.drop_last else -(-rows // batches.batch_size)

    def sampling(self, given: DataLoader[Any]) -> dict[str, Any]:
        """Give the options of a map-style loader of this worker's part."""
        batches = given.batch_sampler
        if batches is None:
            return {"batch_size": None, "sampler": self.indices(given.sampler)}
        if type(batches) is not BatchSampler:
            return {"batch_sampler": self.indices(batches)}
        return {
            "batch_size": batches.batch_size,
            "sampler": self.indices(batches.sampler),
            "drop_last": batches.drop_last,
        }


def rows_of(share: EvaluatedPart, found: Mapping[str, float]) -> int:
    """Say how many rows were evaluated; raises `LoopError` where none were shared."""
    if found and not share.has_read:
        raise LoopError(
            "paceline.evaluating(shared=True): no loader that was given to paceline.wrap was read "
            "in it, so each worker evaluated the same; wrap the loader of these rows too, or leave "
            "shared out"
        )
    return share.num_rows
