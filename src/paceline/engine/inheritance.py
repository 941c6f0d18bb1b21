"""The rows of a worker that is gone for good are taken over by those that still train.

Only where workers step by themselves: each then has a position of its own in the order of rows.
The servers say how many of its pushes count, and what is left of its batches is dealt to the
others, in this epoch and all later ones. Who is gone before it has taken over what it was dealt, or
has come to its end, leaves that to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from paceline.comm.roster import Seat, Sitting
from paceline.comm.words import Parted, TakenOver, TakeOver, Word
from paceline.engine.oddities import Odd
from paceline.engine.progress import Newest
from paceline.training.shares import Holding, Share, dealt
from paceline.workloads.order import Order

# How long servers may take to say how many pushes of a worker count.
_SAYING_S: Final = 5.0


@final
@dataclass
class _Estate:
    """Of a worker that is gone, and whose batches are not dealt yet."""

    incarnation: int
    servers: set[str]
    """Those that have not said how many of its pushes count."""
    due_s: float


@final
class Inheritance:
    """Knows whose batches each worker takes."""

    def __init__(
        self,
        order: Order,
        seats: Mapping[str, Seat],
        *,
        newest: Newest,
        tell: Callable[[str, Word], None],
        heirs: Callable[[], Collection[str]],
        is_on: bool,
        end: int | None,
        now: Callable[[], float],
    ) -> None:
        """`heirs` gives who trains. Batches from `end` on are no part of the run, where it is its
        rows that end it.
        """
        self._order = order
        self._seats = seats
        self._newest = newest
        self._tell = tell
        self._heirs = heirs
        self._is_on = is_on
        self._end = end
        self._now = now
        self._holdings: dict[str, Holding] = {}
        self._told: dict[str, list[Share]] = {}
        """What workers were told to take over, and have not said that they have."""
        self._estates: dict[str, _Estate] = {}
        self._num_lost = 0
        self.settled: set[str] = set()
        """Workers that are gone, and whose batches others take, or which are counted as lost."""

    def lose(self, gone: Sitting, servers: Iterable[str]) -> None:
        """A worker is gone for good, before it had trained."""
        if self._is_on:
            self._holding(gone.seat)
            due_s = self._now() + _SAYING_S
            self._estates[gone.name] = _Estate(gone.incarnation, {*servers}, due_s)

    def parted(self, server: str, word: Parted) -> None:
        """A server says how many pushes of a worker count."""
        self._newest.parted(word.worker, word.num_pushes)
        estate = self._estates.get(word.worker)
        if estate is not None and estate.incarnation == word.incarnation:
            estate.servers.discard(server)

    def attend(self) -> None:
        """Deal what is left of those of whom the servers have said how far they were."""
        for name, estate in list(self._estates.items()):
            if not estate.servers or self._now() >= estate.due_s:
                del self._estates[name]
                self._settle(name)

    def _settle(self, name: str) -> None:
        told = self._told.pop(name, [])
        left = self._holdings[name].left(self._newest.num_taken(name))
        if self._deal([*left, *told]):
            self.settled.add(name)

    def _deal(self, shares: Sequence[Share]) -> bool:
        """Deal shares to those who train; returns whether it is known what becomes of them."""
        heirs = sorted(self._heirs(), key=lambda name: (len(name), name))
        left = [each for each in shares if self._num_left(each)]
        if not heirs:
            self._num_lost += 0 if self._end is None else sum(map(self._num_left, left))
            return self._end is not None
        for heir, part in zip(heirs, dealt(left, len(heirs)), strict=True):
            if part:
                self._told.setdefault(heir, []).extend(part)
                self._tell(heir, TakeOver(part))
        return True

    def _num_left(self, share: Share) -> int:
        return 1 if self._end is None else share.num_before(self._end)

    def taken_over(self, heir: Seat, word: TakenOver) -> None:
        """A worker takes batches of another from now on."""
        name = heir.name
        told = self._told.get(name, [])
        if not 0 < word.num_shares <= len(told):
            raise Odd(f"it took over {word.num_shares} shares of {len(told)}")
        holding = self._holding(heir)
        if word.num_taken < holding.since:
            raise Odd(f"it stood at batch {word.num_taken}, and at {holding.since} before")
        self._told[name] = told[word.num_shares :]
        holding.add(word.num_taken, told[: word.num_shares])

    def trained(self, name: str) -> None:
        """A worker has come to its end: what it did not take over is left to others."""
        told = self._told.pop(name, [])
        if told:
            self._deal(told)

    def shares_of(self, name: str, num_taken: int) -> list[Share]:
        """What a worker that is started again takes, where these are not its own batches alone."""
        holding, told = self._holding(self._seats[name]), self._told.pop(name, [])
        if holding.is_own_only and not told:
            return []
        left = [*holding.left(num_taken), *told]
        if told:
            holding.add(num_taken, told)
        return left

    def rows_lost(self, workers: Collection[str]) -> int:
        """How many rows nobody trained on, when these have trained or still do."""
        lost = self._num_lost * self._order.batch
        return lost + self._newest.rows_lost(workers, self.settled)

    def _holding(self, seat: Seat) -> Holding:
        if seat.name not in self._holdings:
            self._holdings[seat.name] = Holding(seat.index, self._order.steps_per_epoch)
        return self._holdings[seat.name]
