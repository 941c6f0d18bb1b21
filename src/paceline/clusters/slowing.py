"""Processes that run slower than they could: stopped for most of every short period."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Final, final

# So short that a step of any size is slowed evenly, so long that switching costs little.
_PERIOD_S: Final = 0.06


@final
class Slowed:
    """Stops and continues processes in turns. A slow processor would have the same effect, but for
    what their other threads answer meanwhile.
    """

    def __init__(self) -> None:
        self._running_s: dict[int, float] = {}

    def slow(self, pid: int, factor: float) -> None:
        """Let a process run for one part in `factor` of the time; 1: always."""
        if factor > 1:
            self._running_s[pid] = _PERIOD_S / factor
        elif self.forget(pid):
            _signal(pid, signal.SIGCONT)

    def forget(self, pid: int) -> bool:
        """Leave a process alone; returns whether it was slowed."""
        return self._running_s.pop(pid, None) is not None

    def turn(self) -> float | None:
        """Stop and continue whoever is due; gives the seconds until somebody is, None: nobody."""
        if not self._running_s:
            return None
        into_s = time.monotonic() % _PERIOD_S
        ends = [_PERIOD_S - into_s]
        for pid, running_s in self._running_s.items():
            _signal(pid, signal.SIGCONT if into_s < running_s else signal.SIGSTOP)
            if into_s < running_s:
                ends.append(running_s - into_s)
        return min(ends)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
