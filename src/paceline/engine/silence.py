"""Seats that say nothing for too long: who, in which phase, and at which lines of code."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, final

from paceline.comm.monitor_words import Sampled
from paceline.comm.words import Piece, Word
from paceline.seats import role_of
from paceline.store.runs import RunDir
from paceline.system.stacks import CodePlace, place_in

# How long a worker has to write its stack.
_ANSWER_S: Final = 1.0
# Who is silent for this part of the limit is asked too when somebody else has reached it.
_NEARLY: Final = 0.5
# How often a worker is told of: one that is slow in every step would fill the result.
_MOST_TOLD: Final = 5


@final
@dataclass(frozen=True, kw_only=True)
class Silence:
    """A seat that has said nothing for a long time."""

    seat: str
    silent_s: float
    place: CodePlace

    def __str__(self) -> str:
        what = "" if self.place.phase is None else f" in phase {self.place.phase}"
        where = f", at {' from '.join(self.place.lines)}" if self.place.lines else ""
        log = f"; its stack is in logs/{self.seat}.log" if where else "; it wrote no stack"
        return f"silent for {self.silent_s:.0f} s{what}{where}{log}"


@final
class Silences:
    """Notices them, has them write their stacks, and gives those that are the cause.

    Nothing here waits: `look` is called again and again.
    """

    def __init__(
        self, limit_s: float, run_dir: RunDir, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self._limit_s = limit_s
        self._run_dir = run_dir
        self._since_s: dict[str, float] = {}
        self._asked: dict[str, int] = {}
        self._asked_s = 0.0
        self._known: set[str] = set()
        self._stuck: set[str] = set()
        self._num_told: Counter[str] = Counter()

    def heard(self, name: str, word: Word) -> None:
        """A seat has said something. What it prints, a stack perhaps, is no sign that it works."""
        if isinstance(word, Piece) and (word.what == "log" or role_of(name) == "monitor"):
            return
        if isinstance(word, Sampled):  # it samples on, whether it has noted what it should or not
            return
        self._since_s[name] = self._now()
        self._asked.pop(name, None)
        self._known.discard(name)
        self._stuck.discard(name)

    def look(self, working: Collection[str], dump: Callable[[str], None]) -> list[Silence]:
        """Look at those that should be working; `dump` has one of them write its stack.

        Gives each silence once, when its stack is known or did not come in time.
        """
        now_s = self._now()
        self._since_s = {name: self._since_s.get(name, now_s) for name in working}
        if self._asked:
            return self._answers(now_s) if now_s - self._asked_s >= _ANSWER_S else []
        silent_s = {name: now_s - since_s for name, since_s in self._since_s.items()}
        if any(silent_s[name] >= self._limit_s for name in working if name not in self._known):
            self._asked_s = now_s
            for name in sorted(working):
                if silent_s[name] >= _NEARLY * self._limit_s and name not in self._known:
                    self._asked[name] = self._run_dir.log_bytes(name)
                    dump(name)
        return []

    def _answers(self, now_s: float) -> list[Silence]:
        """Read what they wrote. Who waits for another is no news where that other is known."""
        asked = {name: start for name, start in self._asked.items() if name in self._since_s}
        self._known |= asked.keys()
        self._asked = {}
        found = [
            Silence(
                seat=name,
                silent_s=now_s - self._since_s[name],
                place=place_in(self._run_dir.log_from(name, start)),
            )
            for name, start in asked.items()
        ]
        causes = [each for each in found if not each.place.waits]
        told = causes if causes or self._stuck else found
        self._stuck |= {each.seat for each in causes}
        self._num_told.update(each.seat for each in told)
        return [each for each in told if self._num_told[each.seat] <= _MOST_TOLD]
