"""Seats whose process has ended, while their last words may still be on their way.

Between hosts the news that a seat has left comes on its keeper's line, and what it said last on its
own: in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from paceline.clusters.base import Departure
from paceline.comm.words import Abort
from paceline.engine.lines import Lines

# How long a line that has not ended is listened to after the last word that came on it.
_SILENCE_S: Final = 1.0
# And after the departure, whatever comes: somebody else may hold the line of a process that ended.
_MOST_S: Final = 10.0


@final
@dataclass
class _Left:
    departure: Departure
    left_s: float
    heard_s: float

    def is_due(self, now_s: float) -> bool:
        if self.departure.is_final:
            return True
        return now_s - self.heard_s >= _SILENCE_S or now_s - self.left_s >= _MOST_S


@final
class Leaving:
    """Holds a departure back until the seat's line has ended, or nothing more is to be expected.

    The end of a socket pair is there when the process has ended: of those nobody waits.
    """

    def __init__(self, lines: Lines, now: Callable[[], float]) -> None:
        self._lines = lines
        self._now = now
        self._left: dict[str, _Left] = {}

    def add(self, departure: Departure) -> None:
        """A seat's process has ended, or was given up with its node: it is told nothing more.

        One that was given up may be there still, and hears that it is to leave.
        """
        if departure.is_final:
            self._lines.tell(departure.seat, Abort(departure.reason))
        self._lines.tell_no_more(departure.seat)
        now_s = self._now()
        self._left[departure.seat] = _Left(departure, now_s, now_s)

    def heard(self, name: str) -> None:
        """A word has come: there may be more."""
        if name in self._left:
            self._left[name].heard_s = self._now()

    def gone(self) -> list[Departure]:
        """Give the departures of those that have said all they had to say, each once."""
        now_s = self._now()
        names = [
            name
            for name, each in self._left.items()
            if not self._lines.is_open(name) or each.is_due(now_s)
        ]
        return [self._left.pop(name).departure for name in names]
