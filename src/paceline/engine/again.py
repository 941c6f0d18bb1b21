"""A run that lost a seat is started again: from which checkpoint, and with what is known of before.

Each attempt is a run of its own with a folder of its own, since what is sealed never changes. The
last one carries the story of all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from paceline.comm.ticket import Resumed
from paceline.engine.origin import Origin
from paceline.errors import StoreError
from paceline.faults import Fault
from paceline.outcome.disturbed import Disturbance, Setback
from paceline.outcome.outcome import Outcome
from paceline.outcome.results import Result
from paceline.store.checkpoints import Manifest
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun


@final
@dataclass(frozen=True, kw_only=True)
class NextAttempt:
    """What an attempt at a run begins with, but for the first."""

    number: int
    """How many attempts there were before."""
    setback: Setback
    """What ended the last one: the training clock has gone on since."""
    attempts: tuple[str, ...]
    """The names of their runs."""
    disturbances: tuple[Disturbance, ...]
    """All that disturbed them."""
    origin: Origin | None
    """What the next one goes on from; None: no checkpoint is whole, and it begins anew."""
    notes: tuple[str, ...] = ()

    @staticmethod
    def after(
        result: Result, setback: Setback, before: NextAttempt | None, dilation: float
    ) -> NextAttempt:
        """Say how to go on after an attempt that is sealed."""
        path = Path(result.run)
        parent = StoredRun(RunDir(path), result)
        origin, notes = _origin_of(parent)
        passed_s = (time.monotonic() - setback.moment_s) / dilation
        from_step = 0 if origin is None else origin.checkpoint.progress
        noted = list(result.disturbances)
        noted[setback.index] = replace(
            noted[setback.index],
            lost_step=max(from_step, _progress(result)),
            from_step=from_step,
            started_s=setback.time_s + passed_s,
            back_s=None,
            updated_s=None,  # what others still did while it ended is done once more
        )
        return NextAttempt(
            number=1 if before is None else before.number + 1,
            setback=setback,
            attempts=(*(() if before is None else before.attempts), path.name),
            disturbances=tuple(noted),
            origin=origin,
            notes=notes,
        )

    def note(self, outcome: Outcome) -> None:
        """Have the next attempt's result tell of those before."""
        outcome.disturbances += self.disturbances
        outcome.warnings += self.notes

    def facts(self) -> dict[str, Any]:
        """What the facts of the next attempt say of those before."""
        anew = {"parent": self.attempts[-1], "parent_step": 0}
        return {**(anew if self.origin is None else self.origin.facts()), "attempts": self.attempts}

    def faults_left(self, faults: Sequence[Fault]) -> list[Fault]:
        """Give those that have not struck in any attempt, and those that go on."""
        if self.origin is not None:
            return self.origin.faults_left(faults)
        struck = {each.fault for each in self.disturbances}
        return [each for each in faults if each.goes_on or str(each) not in struck]


@final
@dataclass(frozen=True)
class Beginning:
    """What an attempt begins with: nothing, a checkpoint, what went wrong before, or both."""

    origin: Origin | None = None
    after: NextAttempt | None = None

    @staticmethod
    def again(after: NextAttempt) -> Beginning:
        return Beginning(after.origin, after)

    @property
    def manifest(self) -> Manifest | None:
        return None if self.origin is None else self.origin.manifest

    def facts(self) -> dict[str, Any]:
        """What the facts of the attempt say of runs before."""
        known = self.after or self.origin
        return {} if known is None else known.facts()

    def note(self, outcome: Outcome) -> None:
        """Keep what went wrong before."""
        if self.after is not None:
            self.after.note(outcome)

    def lay_out(self, run_dir: RunDir, outcome: Outcome, num_workers: int) -> Resumed | None:
        """Have the run begin with the checkpoint, where there is one."""
        return None if self.origin is None else self.origin.lay_out(run_dir, outcome, num_workers)

    def faults_left(self, faults: Sequence[Fault]) -> Sequence[Fault]:
        """Give the faults that are still to strike."""
        known = self.after or self.origin
        return faults if known is None else known.faults_left(faults)


def _origin_of(parent: StoredRun) -> tuple[Origin | None, tuple[str, ...]]:
    try:
        return Origin.of(parent), ()
    except StoreError as error:
        return None, (f"it was started again from the beginning: {error}",)


def _progress(result: Result) -> int:
    """How far an attempt was: its global steps, or the steps of the furthest worker."""
    if result.global_steps is not None:
        return result.global_steps
    return max((each.worker_steps for each in result.workers), default=0)
