"""What only the driver knows of a run, kept for its result as soon as it is known.

What a seal needs after the driver was killed is written down at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import final

from paceline.comm.keeper_words import LinkReport
from paceline.comm.words import Joined
from paceline.measure.clock import Clock
from paceline.measure.host import HostUse
from paceline.outcome.accounts import WorkerAccount
from paceline.outcome.disturbed import Setback
from paceline.outcome.outcome import Outcome
from paceline.outcome.results import Status
from paceline.spec import RunSpec
from paceline.store.runs import RunDir


@final
class Ledger:
    """Keeps an outcome, and the training clock that its times are of."""

    def __init__(
        self,
        spec: RunSpec,
        outcome: Outcome,
        run_dir: RunDir,
        *,
        began_s: float,
        now: Callable[[], float],
        setback: Setback | None = None,
    ) -> None:
        """After a `setback` the training clock went on while all seats were started again."""
        self._targets = spec.targets
        self._dilation = spec.dilation
        self.outcome = outcome
        self._run_dir = run_dir
        self._began_s = began_s
        self._now = now
        self._clock = Clock(spec.dilation, now)
        self._setback = setback
        self._first_joined_s: float | None = None
        self._rests_since_s = 0.0
        self._host_use: HostUse | None = None

    def end_as(self, status: Status, reason: str | None) -> None:
        self.outcome.status, self.outcome.reason = status, reason

    def warn(self, text: str) -> None:
        """Warn once."""
        if text not in self.outcome.warnings:
            self.outcome.warnings.append(text)
            self._run_dir.append_warning(text)

    def note_nodes(self, links: Sequence[LinkReport], warnings: Sequence[str]) -> None:
        """Keep what is known of the nodes and their links."""
        if not self.outcome.links:
            self.outcome.links = {each.node: asdict(each) for each in links}
            for row in self.outcome.links.values():
                self._run_dir.append_link(row)
        for text in warnings:
            self.warn(text)

    def joined(self, word: Joined) -> None:
        """Keep what a seat says of its data and its model."""
        if self._first_joined_s is None:
            self._first_joined_s = self._now()
        self.outcome.data = word.data or self.outcome.data
        self.outcome.has_buffers |= word.has_buffers
        self.outcome.own_batch = word.batch or self.outcome.own_batch
        if word.converted:
            self.warn(word.converted)

    def go_on(self, time_s: float, evaluations: Sequence[Mapping[str, float]]) -> None:
        """The run goes on from a checkpoint, with what was known there."""
        self._clock.load({"trained_s": time_s})
        for each in evaluations:
            row = {**each, "progress": int(each["progress"])}
            self.outcome.evaluations.append(row)
            self._run_dir.append_evaluation(row)

    def started(self) -> float:
        """Training begins; gives the moment."""
        self._host_use = HostUse()
        now_s = self._now()
        joined_s = now_s if self._first_joined_s is None else self._first_joined_s
        self.outcome.startup_s = now_s - self._began_s
        self.outcome.joining_s = now_s - joined_s
        self.outcome.evaluation_s = 0.0
        missed_s = self.time_s - self._clock.now_s()
        self._setback = None
        start_s = now_s - missed_s * self._dilation
        self._clock.start(start_s)
        return start_s

    @property
    def time_s(self) -> float:
        """Of the training clock, which goes on while a run is started again."""
        if self._setback is None:
            return self._clock.now_s()
        passed_s = (self._now() - self._setback.moment_s) / self._dilation
        return self._setback.time_s + passed_s

    @property
    def start_for_late(self) -> float:
        """The moment from which a clock that starts now goes like all others."""
        return self._now() - self._clock.now_s() * self._dilation

    def trained(self, name: str, totals: WorkerAccount) -> None:
        self.outcome.totals[name] = totals
        if totals.note:
            self.warn(f"{name}: {totals.note}")

    def all_trained(self) -> None:
        """Keep how busy the whole machine was since the start."""
        if self._host_use is not None:
            self.outcome.host_cpu_percent = self._host_use.cpu_percent()
            self.outcome.host_cores = os.cpu_count()
            self.outcome.disk_busy_percent = self._host_use.disk_percent()

    def saving(self) -> None:
        """The clock stands while parameters are kept."""
        self._rests_since_s = self._now()
        self._clock.pause(self._rests_since_s)

    def evaluating(self) -> None:
        """The clock stands, and what passes from here on is counted as evaluation."""
        self._rests_since_s = self._now()
        self._clock.pause(self._rests_since_s)

    def resumed(self) -> float:
        """The evaluation is over; gives the seconds that every clock leaves out."""
        now_s = self._now()
        paused_s = now_s - self._rests_since_s
        self.outcome.evaluation_s = (self.outcome.evaluation_s or 0.0) + paused_s
        self._clock.resume(now_s)
        return paused_s

    def evaluated(
        self, metrics: Mapping[str, float], progress: int | None, *, is_last: bool
    ) -> bool:
        """Keep an evaluation; whether all targets are reached by it.

        `progress` is that of workers at rest; None: all those have trained.
        """
        totals = self.outcome.totals.values()
        time_s = max(each.train_s for each in totals) if is_last else self._clock.now_s()
        progress = self._done if progress is None else progress
        row = {"time_s": time_s, "progress": progress, **metrics}
        self.outcome.evaluations.append(row)
        self._run_dir.append_evaluation(row)
        reached = bool(self._targets) and all(each.is_met(row) for each in self._targets)
        if reached and self.outcome.seconds_to_target is None:
            self.outcome.seconds_to_target = time_s
        return reached

    def logged(self, metrics: Mapping[str, float], progress: int) -> bool:
        """Keep what a script found while it trains; whether all targets are reached by it."""
        return self.evaluated(metrics, progress, is_last=False)

    @property
    def is_evaluated(self) -> bool:
        """Whether nothing was learnt since the last evaluation: a target was reached there."""
        return any(row["progress"] == self._done for row in self.outcome.evaluations[-1:])

    @property
    def _done(self) -> int:
        """The progress of the furthest worker of those that have trained."""
        return max((each.progress for each in self.outcome.totals.values()), default=0)
