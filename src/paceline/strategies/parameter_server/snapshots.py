"""When a server keeps a snapshot, so that it can be started again from it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final, final

from paceline.errors import StateError
from paceline.training.state import State

# Training waits for a copy: at most a fiftieth of the time.
_MOST_OFTEN: Final = 50
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
