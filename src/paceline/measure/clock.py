"""The training clock: stands still while the model is evaluated."""

from __future__ import annotations

import time
from typing import final


@final
class Clock:
    """Seconds of training. All clocks of a run start at one moment and pause for the same time."""

    def __init__(self) -> None:
        self._start_s: float | None = None
        self._paused_s = 0.0

    def start(self, moment_s: float) -> None:
        """Start at a moment of the machine's monotonic clock."""
        self._start_s = moment_s

    def leave_out(self, paused_s: float) -> None:
        """Take an evaluation out of the time."""
        self._paused_s += paused_s

    def now_s(self) -> float:
        """How long training has gone on; 0 before it starts."""
        if self._start_s is None:
            return 0.0
        return time.monotonic() - self._start_s - self._paused_s
