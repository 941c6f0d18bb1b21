"""The training clock: stands still while the model is evaluated."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, final

from paceline.training.state import State, Stateful, StateReader


@final
class Clock(Stateful):
    """Seconds of training. All clocks of a run start at one moment and pause for the same time.

    Under dilation they are virtual seconds, each of which takes `dilation` real ones. Moments and
    pauses that a clock is told are real, and of the driver's monotonic clock: `now` reads that
    from where we are.
    """

    def __init__(self, dilation: float = 1.0, now: Callable[[], float] = time.monotonic) -> None:
        self._dilation = dilation
        self._now = now
        self._start_s: float | None = None
        self._paused_s = 0.0
        self._before_s = 0.0
        self._stands_since_s: float | None = None

    def start(self, moment_s: float) -> None:
        """Start at a moment."""
        self._start_s = moment_s

    def leave_out(self, paused_s: float) -> None:
        """Take an evaluation out of the time."""
        self._paused_s += paused_s

    def pause(self, moment_s: float) -> None:
        """Stand still from a moment on, until `resume`; one that stands already stays as it is."""
        if self._stands_since_s is None:
            self._stands_since_s = moment_s

    def resume(self, moment_s: float) -> None:
        """Go on from a moment on."""
        if self._stands_since_s is not None:
            self.leave_out(moment_s - self._stands_since_s)
        self._stands_since_s = None

    def now_s(self) -> float:
        """How long training has gone on; before it starts, what it was loaded with."""
        if self._start_s is None:
            return self._before_s
        moment_s = self._now() if self._stands_since_s is None else self._stands_since_s
        return self._before_s + (moment_s - self._start_s - self._paused_s) / self._dilation

    def state(self) -> State:
        return {"trained_s": self.now_s()}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            self._before_s = fields.number("trained_s")


def virtual(table: Mapping[str, Any], dilation: float) -> dict[str, Any]:
    """Turn the real seconds in a table, and in the tables in it, into virtual ones.

    Everything whose name ends in `_s` is seconds, those of a processor too: what part of the time a
    thread ran stays what it was.
    """
    return {key: _virtual(key, value, dilation) for key, value in table.items()}


def _virtual(key: str, value: Any, dilation: float) -> Any:
    if dilation == 1.0:
        return value
    if isinstance(value, Mapping):
        # A table of seconds, by seat say, has its unit in its own name.
        return {
            k: _virtual(key if key.endswith("_s") else k, v, dilation) for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_virtual(key, each, dilation) for each in value]
    is_time = key.endswith("_s") and isinstance(value, (int, float))
    return value / dilation if is_time else value
