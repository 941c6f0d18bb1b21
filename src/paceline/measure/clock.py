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
        self._stands_since_s: float | None = None

    def start(self, moment_s: float) -> None:
        """Start at a moment of the machine's monotonic clock."""
        self._start_s = moment_s

    def leave_out(self, paused_s: float) -> None:
        """Take an evaluation out of the time."""
        self._paused_s += paused_s

    def pause(self, moment_s: float) -> None:
        """Stand still from a moment on, until `resume`."""
        self._stands_since_s = moment_s

    def resume(self, moment_s: float) -> None:
        """Go on from a moment on."""
        if self._stands_since_s is not None:
            self.leave_out(moment_s - self._stands_since_s)
        self._stands_since_s = None

    def now_s(self) -> float:
        """How long training has gone on; 0 before it starts."""
        if self._start_s is None:
            return 0.0
        moment_s = time.monotonic() if self._stands_since_s is None else self._stands_since_s
        return moment_s - self._start_s - self._paused_s
