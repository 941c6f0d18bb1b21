"""Which rows a worker takes, and when: the same for every strategy.

An epoch is one pass by all workers together. Global batch t is positions tNB to (t+1)NB of the
epoch's permutation, worker r takes the r-th slice of it, and a short last batch is dropped. So N
workers at batch B see exactly the rows that one worker at batch N times B sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Order:
    """The order of the rows for one worker."""

    num_rows: int
    num_workers: int
    batch: int
    seed: int

    @property
    def steps_per_epoch(self) -> int:
        """How many steps each worker makes in one pass over the data."""
        return self.num_rows // (self.num_workers * self.batch)

    def permutation(self, epoch: int) -> Tensor:
        """Shuffle all rows for one epoch; depends on the seed and the epoch only."""
        import torch

        # The two numbers go into one seed by a large odd factor, so that neighbouring seeds
        # do not give each other's epochs.
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        return torch.randperm(self.num_rows, generator=generator)

    def batches(self, rank: int) -> Iterator[Tensor]:
        """Yield the row numbers of each of a worker's batches, epoch after epoch, without end."""
        stride = self.num_workers * self.batch
        epoch = 0
        while True:
            permutation = self.permutation(epoch)
            for step in range(self.steps_per_epoch):
                start = step * stride + rank * self.batch
                yield permutation[start : start + self.batch]
            epoch += 1
