"""Whose batches a worker takes: its own, and part of those of workers that are gone.

Which batch comes next follows from the shares alone, so whoever knows them, and how many batches
were taken, knows what is left of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class Share:
    """Every so many-th batch of a rank, from one of them on."""

    rank: int
    start: int
    """Its first batch, counted over all epochs."""
    every: int = 1

    def num_before(self, end: int) -> int:
        """How many of its batches come before that one of the rank."""
        return len(range(self.start, end, self.every))

    def parts(self, number: int) -> list[Share]:
        """Cut it into so many that have its batches in turn."""
        every = number * self.every
        starts = [self.start + index * self.every for index in range(number)]
        return [Share(rank=self.rank, start=start, every=every) for start in starts]


def dealt(shares: Sequence[Share], num_heirs: int) -> list[list[Share]]:
    """Deal shares to so many workers: whole ones if there are enough, else parts of them."""
    if len(shares) >= num_heirs:
        return [list(shares[heir::num_heirs]) for heir in range(num_heirs)]
    heirs: list[list[Share]] = [[] for _ in range(num_heirs)]
    for index, share in enumerate(shares):
        those = heirs[index :: len(shares)]
        for heir, part in zip(those, share.parts(len(those)), strict=True):
            heir.append(part)
    return heirs


@final
class Shares:
    """In which order a worker takes the batches of its shares.

    An epoch is finished in all of them before the next one begins; within an epoch the batches of
    the first share come first.
    """

    def __init__(self, shares: Iterable[Share], steps_per_epoch: int) -> None:
        self.left = list(shares)
        """What was not taken of each."""
        self._steps_per_epoch = max(1, steps_per_epoch)

    def take(self) -> int:
        """Take the next batch; gives the number of its share."""
        epochs = [each.start // self._steps_per_epoch for each in self.left]
        index = epochs.index(min(epochs))
        share = self.left[index]
        self.left[index] = Share(
            rank=share.rank, start=share.start + share.every, every=share.every
        )
        return index

    def after(self, number: int) -> Shares:
        """What they are when so many more batches are taken."""
        made = Shares(self.left, self._steps_per_epoch)
        if len(made.left) == 1:
            (only,) = made.left
            start = only.start + number * only.every
            made.left = [Share(rank=only.rank, start=start, every=only.every)]
            return made
        for _ in range(number):
            made.take()
        return made

    def with_more(self, more: Iterable[Share]) -> Shares:
        """The same, and these."""
        return Shares([*self.left, *more], self._steps_per_epoch)


@final
class Holding:
    """The shares of a worker as others know them, whichever incarnation takes them."""

    def __init__(self, rank: int, steps_per_epoch: int) -> None:
        own = Shares([Share(rank=rank, start=0)], steps_per_epoch)
        self._stages: list[tuple[int, Shares, list[Share]]] = [(0, own, [])]

    @property
    def is_own_only(self) -> bool:
        """Whether it never took over anything."""
        return len(self._stages) == 1

    @property
    def since(self) -> int:
        """After how many batches it last took something over."""
        return self._stages[-1][0]

    def add(self, num_taken: int, shares: Sequence[Share]) -> None:
        """From after so many batches on it also has these."""
        since, before, _ = self._stages[-1]
        now = before.after(num_taken - since).with_more(shares)
        self._stages.append((num_taken, now, [*shares]))

    def left(self, num_taken: int) -> list[Share]:
        """What is left after so many batches.

        A batch may have been taken ahead of the step that it was for, and so before something was
        taken over, of which its worker made no step any more.
        """
        later: list[Share] = []
        for since, shares, added in reversed(self._stages):
            if since <= num_taken:
                return [*shares.after(num_taken - since).left, *later]
            later = [*added, *later]
        raise AssertionError("a stage begins with 0 batches taken")
