"""How far a clock is ahead of another machine's, learnt from round trips between the two.

What the other clock showed when it was asked lies between the question and the answer, whichever
way took longer: each round trip gives an interval for the offset, and the truth is in all of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, final

_DRIFT: Final = 1e-4
"""By how much one clock may run faster than another; those of computers differ by less."""


@final
@dataclass(frozen=True)
class Offset:
    """What has to be taken from a clock here to read the other one, and how wrong that may be."""

    seconds: float
    uncertainty_s: float


class _Bounds(NamedTuple):
    """Between what the offset lay at a moment of the clock here."""

    low_s: float
    high_s: float
    at_s: float

    def at(self, moment_s: float) -> _Bounds:
        """What is left of it after a while, for clocks run apart."""
        apart_s = _DRIFT * abs(moment_s - self.at_s)
        return _Bounds(self.low_s - apart_s, self.high_s + apart_s, moment_s)

    def within(self, other: _Bounds) -> _Bounds:
        """What agrees with both; where nothing does, a clock was stopped, and the newer counts."""
        low_s, high_s = max(self.low_s, other.low_s), min(self.high_s, other.high_s)
        return _Bounds(low_s, high_s, self.at_s) if low_s <= high_s else self

    @property
    def middle_s(self) -> float:
        return (self.low_s + self.high_s) / 2


@final
class Gauge:
    """Reads the other machine's clock by means of ours. Any thread may call."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.here_s = clock
        self._lock = threading.Lock()
        self._known: _Bounds | None = None
        self._seconds = 0.0
        self._last_s = float("-inf")

    def learn(self, sent_s: float, there_s: float) -> None:
        """Take note of an answer that has just come: when we asked, and what it said."""
        with self._lock:
            now_s = self.here_s()
            new = _Bounds(sent_s - there_s, now_s - there_s, now_s)
            self._known = new if self._known is None else new.within(self._known.at(now_s))
            self._seconds = self._known.middle_s

    @property
    def offset(self) -> Offset:
        """The offset as it is known now."""
        with self._lock:
            assert self._known is not None, "nothing was learnt yet"
            known = self._known.at(self.here_s())
        return Offset(known.middle_s, (known.high_s - known.low_s) / 2)

    def there_s(self) -> float:
        """Read the other clock. It does not go back when more is learnt."""
        self._last_s = max(self._last_s, self.here_s() - self._seconds)
        return self._last_s
