"""A worker's batches, each with the rows of the model's table that it needs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import final

from torch import Tensor

from paceline.workloads.base import Batch, Data
from paceline.workloads.order import Order


@final
class Feed:
    """Loads batch after batch, without end."""

    def __init__(self, data: Data, order: Order, rank: int, *, looks_ahead: bool) -> None:
        """`looks_ahead`: with each batch come the table rows of the next one."""
        self.order = order
        self.touched_rows: int | None = None
        """How many rows of the table the newest batch needs."""
        self.gathers_early = data.gathers_early and not looks_ahead
        """Whether a batch may be taken before the step begins that it is for."""
        self._data = data
        self._rank = rank
        self._looks_ahead = looks_ahead

    def batches(self) -> Iterator[tuple[Batch, Tensor | None, Tensor | None]]:
        """Gather batch after batch, with the table rows it needs, and where asked for the next."""
        if self._looks_ahead:
            for (batch, rows), (_, next_rows) in itertools.pairwise(self._loaded()):
                yield batch, rows, next_rows
        for batch, rows in self._loaded():
            yield batch, rows, None

    def _loaded(self) -> Iterator[tuple[Batch, Tensor | None]]:
        data = self._data
        for batch in data.batches(self.order, self._rank):
            rows = data.touched(batch)
            if rows is not None:
                self.touched_rows = rows.numel()
            yield batch, rows
