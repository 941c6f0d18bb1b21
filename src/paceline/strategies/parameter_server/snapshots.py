"""When a server keeps a snapshot, so that it can be started again from it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final, final

from paceline.errors import StateError
from paceline.training.state import State

# Training waits for a copy: at most a fiftieth of the time.
_MOST_OFTEN: Final = 50
# After how many times the wished interval versions are to be kept that are nearer to each other.
_FAR_BEHIND: Final = 2
# How often it is tried where there is no state while a push is under way.
_TRY_S: Final = 0.01


@final
class Snapshots:
    """Looked at between two arrivals, by the thread that changes the state."""

    def __init__(
        self,
        every_s: float,
        state: Callable[[], State],
        keep: Callable[[State], bool],
        now: Callable[[], float] = monotonic,
    ) -> None:
        """`keep` copies a state, unless the one before is still being written."""
        self._every_s = every_s
        self._state = state
        self._keep = keep
        self._now = now
        self._due_s = now() + every_s

    @property
    def is_due(self) -> bool:
        return self._now() >= self._due_s

    @property
    def is_overdue(self) -> bool:
        """Whether one could have been kept long ago."""
        return self._now() > self._due_s + _FAR_BEHIND * self._every_s

    def look(self) -> None:
        """Keep one if it is due."""
        began_s = self._now()
        if began_s < self._due_s:
            return
        self._due_s = began_s + _TRY_S
        try:
            state = self._state()
        except StateError:  # a push is under way
            return
        if self._keep(state):
            ended_s = self._now()
            self._due_s = ended_s + max(self._every_s, _MOST_OFTEN * (ended_s - began_s))


@final
class EqualSnapshots:
    """Snapshots of versions that other servers keep too, though no server hears of another.

    Each keeps the versions that are multiples of a power of two, one that takes at least as long as
    is wished. Where two servers do not choose the same one, every multiple of the larger is one
    of the smaller.
    """

    def __init__(self, snapshots: Snapshots, version: Callable[[], int]) -> None:
        self._snapshots = snapshots
        self._version = version
        self._decided = version()  # which is kept when a server begins
        self._period = 1

    def look(self) -> None:
        """Keep one if this version is one to be kept: decided once, when it is new."""
        version = self._version()
        if version == self._decided:
            return
        self._decided = version
        if self._snapshots.is_overdue and self._period > 1:
            self._period //= 2  # first of all: the next multiple may be far off
        if version % self._period:
            return
        if self._snapshots.is_due:
            self._snapshots.look()
        else:
            self._period *= 2
