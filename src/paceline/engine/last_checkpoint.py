"""A run that is to end for want of workers first keeps what those that are left have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, final

from paceline.engine.ending import Ending
from paceline.engine.gates import Gates
from paceline.engine.keeping import Keeping
from paceline.engine.ledger import Ledger
from paceline.spec import RunSpec

# How far ahead all are asked to rest, at the pace so far: each has to hear of it before.
_AHEAD_S: Final = 0.5
# In rows of records: a worker hears what is said while it trains when it writes one.
_AHEAD_ROWS: Final = 3
# Of less training the pace is not known.
_LEAST_S: Final = 0.1
# How long a rest is waited for, in steps and in times of the lead that it was given.
_PATIENCE: Final = 4
# How long all may take to write their states.
_WRITING_S: Final = 600.0


@final
class LastCheckpoint:
    """Owned by the driver: all rest, copy and write; then the run ends with its cause.

    Workers in step cannot rest anywhere but after the same step. Who hears of it too late goes past
    it and waits for the others: then all are asked again, for a rest that is further ahead.
    """

    def __init__(
        self,
        spec: RunSpec,
        *,
        gates: Gates,
        keeping: Keeping,
        ending: Ending,
        ledger: Ledger,
        num_updates: Callable[[], int],
        within_s: float,
        now: Callable[[], float],
    ) -> None:
        """All have `within_s` to come to rest; else the run ends without a checkpoint."""
        self.is_possible = not (spec.workload.is_script or spec.is_replayed)
        self.cause: tuple[str, str] | None = None
        """Whose loss the run ends with, and why."""
        self._gates = gates
        self._keeping = keeping
        self._ending = ending
        self._ledger = ledger
        self._num_updates = num_updates
        self._dilation = spec.dilation
        self._ahead_s = max(_AHEAD_S, _AHEAD_ROWS * spec.record.interval_s)
        self._within_s = within_s
        self._due_s = self._ask_again_s = math.inf
        self._now = now

    def begin(self, name: str, reason: str) -> None:
        """End the run because of a seat, when all is kept. The first cause stays."""
        if self.cause is None:
            self.cause = name, reason
            self._ask_again_s = self._now()
            self._due_s = self._now() + self._within_s

    def attend(self) -> None:
        """Have all rest; end the run when what they have is written, or when it cannot be."""
        if self.cause is None or self._ending.is_aborted:
            return
        if self._is_over():
            self._ending.fail(*self.cause)
        elif self._gates.phase == "training":
            self._ask()
        elif self._gates.phase == "keeping" and self._ask_again_s < math.inf:
            self._ask_again_s, self._due_s = math.inf, self._now() + _WRITING_S

    def _is_over(self) -> bool:
        gates = self._gates
        if gates.is_all_kept or self._ending.is_stopping:
            return True
        problem = None
        if not gates.is_anyone_training:
            problem = "all came to their end before"
        elif self._now() > self._due_s:
            problem = "the workers that are left did not all rest in time"
        if problem is not None:
            self._ledger.warn(f"no checkpoint was made at the end: {problem}")
        return problem is not None

    def _ask(self) -> None:
        if self._now() < self._ask_again_s or not self._keeping.is_free:
            return
        done, time_s = max(1, self._num_updates()), max(_LEAST_S, self._ledger.time_s)
        ahead = math.ceil(self._ahead_s * done / time_s)
        self._gates.rest_for_the_last_time(self._num_updates() + ahead)
        patience_s = _PATIENCE * (self._ahead_s + time_s / done) * self._dilation
        self._ask_again_s = self._now() + patience_s
        self._ahead_s *= 2
