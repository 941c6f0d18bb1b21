"""Which rows a worker takes, and when: the same for every strategy.

An epoch is one pass by all workers together. Global batch t is positions tNB to (t+1)NB of the
epoch's permutation, worker r takes the r-th slice of it, and a short last batch is dropped. So N
workers at batch B see exactly the rows that one worker at batch N times B sees.

Rows that lie in large files are shuffled with a bounded memory instead of all at once: `runs` of
neighbouring rows in a random order, and of those a `window` of rows at a time at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from paceline.training.state import State, StateReader, attributes

if TYPE_CHECKING:
    import torch
    from torch import Tensor


_IDENTITY: Final = ("num_rows", "num_workers", "batch", "seed")


class Draw(NamedTuple):
    """The rows of one worker's step, and where they stand in the order of all."""

    rows: Tensor
    position: int
    """Of the first row, counted over all epochs: what is drawn for a row follows from it."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """The order of the rows for one worker."""

    num_rows: int
    num_workers: int
    batch: int
    seed: int
    window: int | None = None
    """How many rows are shuffled at a time; all of them, unless given."""
    runs: Sequence[int] = ()
    """With a window: the row that each run of neighbours begins with, rising from 0 on."""
    start: int = 0
    """How many of its batches each worker has taken already: where a resumed run goes on."""
    every: int = 1
    """The step between the batches that are taken from there on, counted over all epochs."""

    @property
    def steps_per_epoch(self) -> int:
        """How many steps each worker makes in one pass over the data."""
        return self.num_rows // (self.num_workers * self.batch)

    def state(self, num_taken: int) -> State:
        """Say after how many batches each worker stands, and in the order of which rows."""
        return {**attributes(self, *_IDENTITY), "start": num_taken}

    def continued(self, state: State) -> Order:
        """Give the same order from where `state` stands. Raises `StateError` if it is another."""
        with StateReader(state) as fields:
            for name in _IDENTITY:
                fields.expect(name, getattr(self, name))
            return replace(self, start=fields.whole("start"))

    def near(self, state: State) -> Order:
        """Give the same order from about where `state` stands in one of other batches or workers.

        No row before that is taken again in its epoch, and fewer than a step of all are left out.
        """
        with StateReader(state) as fields:
            for name in ("num_rows", "seed"):
                fields.expect(name, getattr(self, name))
            rows_each = fields.whole("num_workers") * fields.whole("batch")
            start = fields.whole("start")
        epoch, num_taken = divmod(start, max(1, self.num_rows // rows_each))
        num_steps = -(-num_taken * rows_each // (self.num_workers * self.batch))
        steps = self.steps_per_epoch
        return replace(self, start=epoch * steps + min(steps, num_steps))

    def permutation(self, epoch: int) -> Tensor:
        """Shuffle all rows for one epoch; depends on the seed and the epoch only."""
        import torch

        return torch.randperm(self.num_rows, generator=self._generator(epoch))

    def batches(self, rank: int) -> Iterator[Tensor]:
        """Yield the row numbers of each of a worker's batches, epoch after epoch, without end.

        The first is the one after the `start` batches that were taken already.
        """
        return (draw.rows for draw in self.draws(rank))

    def draws(self, rank: int) -> Iterator[Draw]:
        """The same, with the position of each batch."""
        draws = self._draws(rank)
        return draws if self.every == 1 else islice(draws, 0, None, self.every)

    def _draws(self, rank: int) -> Iterator[Draw]:
        epoch, num_taken = divmod(self.start, max(1, self.steps_per_epoch))
        while True:
            yield from self._epoch(epoch, rank, num_taken)
            epoch, num_taken = epoch + 1, 0

    def _epoch(self, epoch: int, rank: int, num_skipped: int) -> Iterator[Draw]:
        import torch

        stride = self.num_workers * self.batch
        position = epoch * self.num_rows
        waiting = torch.empty(0, dtype=torch.int64)
        for shuffled in self._windows(epoch):
            waiting = torch.cat([waiting, shuffled])
            num_taken = len(waiting) // stride * stride
            skipped = min(num_skipped * stride, num_taken)
            num_skipped -= skipped // stride
            for start in range(skipped + rank * self.batch, num_taken, stride):
                yield Draw(waiting[start : start + self.batch], position + start)
            waiting = waiting[num_taken:]
            position += num_taken

    def _windows(self, epoch: int) -> Iterator[Tensor]:
        """Yield the rows of an epoch, as many as are shuffled together at a time."""
        import torch

        if self.window is None:
            yield self.permutation(epoch)
            return
        generator = self._generator(epoch)
        held: list[Tensor] = []
        room = self.window
        for start, stop in self._runs(generator):
            for cut, end in _pieces(start, stop, room, self.window):
                held.append(torch.arange(cut, end))
                room -= end - cut
                if not room:
                    yield _shuffled(held, generator)
                    held, room = [], self.window
        if held:
            yield _shuffled(held, generator)

    def _runs(self, generator: torch.Generator) -> Iterator[tuple[int, int]]:
        """Yield where each run begins and ends, the runs in a random order."""
        import torch

        for index in torch.randperm(len(self.runs), generator=generator).tolist():
            is_last = index + 1 == len(self.runs)
            yield self.runs[index], self.num_rows if is_last else self.runs[index + 1]

    def _generator(self, epoch: int) -> torch.Generator:
        import torch

        # The two numbers go into one seed by a large odd factor, so that neighbouring seeds
        # do not give each other's epochs.
        return torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)


def _pieces(start: int, stop: int, room: int, window: int) -> Iterator[tuple[int, int]]:
    """Cut a run where a window is full: the first piece fills what is left of the current one."""
    while start < stop:
        end = min(stop, start + room)
        yield start, end
        start, room = end, window


def _shuffled(held: list[Tensor], generator: torch.Generator) -> Tensor:
    import torch

    rows = torch.cat(held)
    return rows[torch.randperm(len(rows), generator=generator)]
