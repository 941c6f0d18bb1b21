"""A worker's batches, each with the rows of the model's table that it needs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import final

from torch import Tensor

from paceline.training.shares import Share, Shares
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
        self.looks_ahead = looks_ahead
        self.say_taken_over: Callable[[int, int], None] = lambda _shares, _batches: None
        """Hears of how many more shares this worker takes batches, and after how many of all."""
        self._shares: Shares | None = None
        """Whose batches are taken, where these are not this worker's own alone."""
        self._offered: list[Share] = []

    def begin_with(self, shares: Sequence[Share]) -> None:
        """Take batches of these shares, the first of which is this worker's own."""
        self._shares = Shares(shares, self.order.steps_per_epoch)

    def take_over(self, shares: Sequence[Share]) -> None:
        """Take batches of these, too, from the next that is loaded on."""
        self._offered += shares

    def own_start(self, num_taken: int) -> int:
        """Which of its own batches this worker takes next, when so many of all are taken."""
        return num_taken if self._shares is None else self._shares.left[0].start

    def batches(self) -> Iterator[tuple[Batch, Tensor | None, Tensor | None]]:
        """Gather batch after batch, with the table rows it needs, and where asked for the next."""
        if self.looks_ahead:
            for (batch, rows), (_, next_rows) in itertools.pairwise(self._loaded()):
                yield batch, rows, next_rows
        for batch, rows in self._loaded():
            yield batch, rows, None

    def _loaded(self) -> Iterator[tuple[Batch, Tensor | None]]:
        """This worker's own batches, and from some moment on those of several shares in turn."""
        own, num_taken = None, self.order.start
        if self._shares is None:
            own = self._data.batches(self.order, self._rank)
            touched = self._data.touched
            for number, batch in enumerate(own, 1):
                rows = touched(batch)
                if rows is not None:
                    self.touched_rows = rows.numel()
                yield batch, rows
                if self._offered:
                    num_taken += number
                    break
            else:
                return
            share = Share(rank=self._rank, start=num_taken)
            self._shares = Shares([share], self.order.steps_per_epoch)
        yield from self._in_turn(self._shares, num_taken, own)

    def _in_turn(
        self, shares: Shares, num_taken: int, own: Iterator[Batch] | None
    ) -> Iterator[tuple[Batch, Tensor | None]]:
        sources = [] if own is None else [own]
        while True:
            if self._offered:
                self.say_taken_over(len(self._offered), num_taken)
                shares.left += self._offered
                self._offered = []
            sources += [self._source(each) for each in shares.left[len(sources) :]]
            batch = next(sources[shares.take()])
            num_taken += 1
            yield batch, self._touched(batch)

    def _touched(self, batch: Batch) -> Tensor | None:
        rows = self._data.touched(batch)
        if rows is not None:
            self.touched_rows = rows.numel()
        return rows

    def _source(self, share: Share) -> Iterator[Batch]:
        order = dataclasses.replace(self.order, start=share.start, every=share.every)
        return self._data.batches(order, share.rank)
