"""How a run comes to its end: finished, failed or stopped; by when, and who was the cause."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, final

from paceline.comm.words import Abort, Stop
from paceline.engine.ledger import Ledger
from paceline.engine.lines import Lines

# How long seats have to leave once they were let go.
_LEAVING_S: Final = 30.0
# How long seats have to write their last rows when a run ends early.
_GRACE_S: Final = 5.0
# How long workers have to end their step when asked to stop: that of a large network takes many
# seconds, and who cannot wait for it asks once more.
_STOPPING_S: Final = 120.0


@final
class Ending:
    """Whether the end has begun, and its deadline."""

    def __init__(self, lines: Lines, ledger: Ledger, now: Callable[[], float]) -> None:
        self._lines = lines
        self._ledger = ledger
        self._now = now
        self._deadline_s = math.inf
        self.failed_seat: str | None = None
        self.is_stopping = False
        self.is_aborted = False
        """Whether all were told that the run cannot go on: they hear nothing else then."""

    @property
    def is_due(self) -> bool:
        """Whether all have had time enough to leave."""
        return self._now() >= self._deadline_s

    def finish(self) -> None:
        """Training is over for all."""
        if not self.is_stopping:
            self._ledger.end_as("finished", None)
        self._allow(_LEAVING_S)

    def stop(self, *, at_once: bool) -> None:
        """The user wants no further step; asked twice, nobody waits for the current one."""
        at_once |= self.is_stopping
        self.is_stopping = True
        self._ledger.outcome.setback = None  # nor is anything to be started again
        if self.failed_seat is None:  # what failed before stays the cause
            self._ledger.end_as("interrupted", "stopped by the user")
        self._lines.tell_all(Stop())
        self._allow(-math.inf if at_once else _STOPPING_S)

    def fail(self, name: str, reason: str) -> None:
        """The first failure is the cause; the others are told of it and leave."""
        if self.is_aborted:
            return
        self.is_aborted = True
        if self.is_stopping:  # who ends its step would wait for this one in vain
            self._ledger.warn(f"{name} failed while the run was stopped: {reason}")
        else:
            self.failed_seat = name
            self._ledger.end_as("failed", f"{name}: {reason}")
        self._lines.tell_last(Abort(f"{name} failed: {reason}"))
        self._allow(_GRACE_S)

    def _allow(self, seconds: float) -> None:
        self._deadline_s = min(self._deadline_s, self._now() + seconds)
