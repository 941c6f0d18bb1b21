"""Before an evaluation or a save every worker settles: how the driver leads that moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import final

from paceline.comm import words
from paceline.comm.words import Word
from paceline.engine.oddities import Odd
from paceline.engine.shared_evaluation import SharedEvaluation, all_share


@final
class Settling:
    """Has all workers that rest call `Member.settle`, and then the first of them do something.

    Those that have ended are asked too: so each is asked equally often. Where workers share an
    evaluation nobody is told to do it: each does its part when all have settled twice.
    """

    def __init__(self, tell: Callable[[str, Word], None]) -> None:
        self._tell = tell
        self._workers: list[str] = []
        self._missing: set[str] = set()
        self._looked_at: str | None = None
        self._word: Word | None = None
        self._asked: str | None = None
        self._wishes: dict[str, bool] = {}
        self._shares: SharedEvaluation | None = None
        self._are_all_looked_at = False
        self.found: dict[str, float] | None = None
        """What an evaluation came to, when it is done."""

    @property
    def working(self) -> set[str]:
        """Who should be doing something: those that have not settled yet, then who evaluates."""
        evaluating = set() if self._shares is None else self._shares.missing
        return self._missing or evaluating or ({self._asked} if self._asked else set())

    @property
    def is_in_vain(self) -> bool:
        """Whether all who rested are gone before it was done."""
        is_shared_in_vain = self._shares is not None and self._shares.is_in_vain
        return self._word is not None and (not self._workers or is_shared_in_vain)

    def rests(self, name: str, *, shares: bool) -> None:
        """A worker has come to rest; `shares`: to evaluate together with the others."""
        self._wishes[name] = shares

    def before(self, word: Word, workers: Sequence[str]) -> None:
        """Have these workers settle, then tell the first of them."""
        self._workers, self._word, self._asked = list(workers), word, None
        self._looked_at = next(iter(workers), None)
        self._shares, self._are_all_looked_at = None, False
        if isinstance(word, words.Evaluate) and all_share(self._wishes):
            self._shares = SharedEvaluation(name for name in workers if name in self._wishes)
            self._settle(looked_at=())
        else:
            self._settle(looked_at=self._workers[:1])

    def _settle(self, looked_at: Collection[str]) -> None:
        self._missing = set(self._workers)
        among = [] if self._shares is None else self._shares.names
        for name in self._workers:
            self._tell(name, words.Settle(is_looked_at=name in looked_at, among=among))
        self._ask_if_settled()

    def is_asked(self, name: str, kind: type[Word]) -> bool:
        """Whether a worker was asked for something, and has not done it."""
        return name == self._asked and isinstance(self._word, kind)

    def take(self, name: str) -> None:
        """A worker has settled."""
        if name not in self._missing:
            raise Odd.out_of_turn(words.Settled)
        self._missing.discard(name)
        self._ask_if_settled()

    def forget(self, name: str) -> None:
        """A worker is gone; if it was the first, all settle again for the next one."""
        self._missing.discard(name)
        self._wishes.pop(name, None)
        if name in self._workers:
            self._workers.remove(name)
        if name == self._asked:
            self._asked = None
        if self._shares is not None:
            self._shares.missing.discard(name)
            self.found = self._shares.joined()
        self._ask_if_settled()

    def saved(self, name: str) -> None:
        """The worker that was asked to has kept the parameters."""
        if not self.is_asked(name, words.Save):
            raise Odd.out_of_turn(words.Saved)
        self.end()

    def evaluated(self, name: str, word: words.Evaluated) -> None:
        """A worker has evaluated: what it was asked to, or its share."""
        if self._shares is None:
            if not self.is_asked(name, words.Evaluate):
                raise Odd.out_of_turn(words.Evaluated)
            self.found = word.metrics
        elif name in self._missing or name not in self._shares.missing:
            raise Odd.out_of_turn(words.Evaluated)
        else:
            self._shares.take(name, word)
            self.found = self._shares.joined()

    def end(self) -> None:
        """It is done, or nobody is left to do it."""
        self._workers, self._word, self._asked = [], None, None
        self._wishes, self._shares, self.found = {}, None, None

    def _ask_if_settled(self) -> None:
        if self._word is None or self._missing or self._asked or not self._workers:
            return
        if self._shares is not None:
            if not self._are_all_looked_at:  # nothing is on its way any more: all see the same
                self._are_all_looked_at = True
                self._settle(looked_at=self._workers)
        elif self._looked_at != self._workers[0]:
            self.before(self._word, self._workers)
        else:
            self._asked = self._looked_at
            self._tell(self._asked, self._word)
