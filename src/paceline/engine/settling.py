"""Before an evaluation or a save every worker settles: how the driver leads that moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from paceline.comm import words
from paceline.comm.words import Word
from paceline.engine.oddities import Odd


@final
class Settling:
    """Has all workers that rest call `Member.settle`, and then the first of them do something.

    Those that have ended are asked too: so each is asked equally often.
    """

    def __init__(self, tell: Callable[[str, Word], None]) -> None:
        self._tell = tell
        self._workers: list[str] = []
        self._missing: set[str] = set()
        self._looked_at: str | None = None
        self._word: Word | None = None
        self._asked: str | None = None

    @property
    def working(self) -> set[str]:
        """Who should be doing something: those that have not settled yet, then the one asked."""
        return self._missing or ({self._asked} if self._asked else set())

    @property
    def is_in_vain(self) -> bool:
        """Whether all who rested are gone before it was done."""
        return self._word is not None and not self._workers

    def before(self, word: Word, workers: Sequence[str]) -> None:
        """Have these workers settle, then tell the first of them."""
        self._workers, self._missing = list(workers), set(workers)
        self._word, self._asked = word, None
        self._looked_at = next(iter(workers), None)
        for name in workers:
            self._tell(name, words.Settle(is_looked_at=name == self._looked_at))
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
        if name in self._workers:
            self._workers.remove(name)
        if name == self._asked:
            self._asked = None
        self._ask_if_settled()

    def end(self) -> None:
        """It is done, or nobody is left to do it."""
        self._workers, self._word, self._asked = [], None, None

    def _ask_if_settled(self) -> None:
        if self._word is None or self._missing or self._asked or not self._workers:
            return
        if self._looked_at != self._workers[0]:
            self.before(self._word, self._workers)
        else:
            self._asked = self._looked_at
            self._tell(self._asked, self._word)
