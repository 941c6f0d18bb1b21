"""The parts to which a conductor passes on what it hears, each made of those before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from paceline.comm import words
from paceline.comm.line import Line
from paceline.comm.roster import Seat
from paceline.comm.words import Word
from paceline.engine.again import NextAttempt
from paceline.engine.agenda import agenda_of
from paceline.engine.attendance import Attendance
from paceline.engine.common_versions import CommonVersions
from paceline.engine.departures import DeparturePolicy, policy_of
from paceline.engine.disturbances import Disturbances
from paceline.engine.ending import Ending
from paceline.engine.gates import Gates
from paceline.engine.handouts import Handouts
from paceline.engine.inheritance import Inheritance
from paceline.engine.injector import Injector
from paceline.engine.keeping import Keeping
from paceline.engine.last_checkpoint import LastCheckpoint
from paceline.engine.leaving import Leaving
from paceline.engine.ledger import Ledger
from paceline.engine.limits import last_batch
from paceline.engine.lines import Lines
from paceline.engine.losses import Losses, Restart
from paceline.engine.monitors import Monitors
from paceline.engine.progress import Newest, Pace
from paceline.engine.server_returns import servers_return
from paceline.engine.silence import Silences
from paceline.faults import Fault
from paceline.outcome.outcome import Outcome
from paceline.sinks.deliveries import Deliveries
from paceline.spec import RunSpec
from paceline.store.checkpoints import Manifest
from paceline.store.runs import RunDir
from paceline.workloads.order import Order


@final
@dataclass(frozen=True, kw_only=True)
class RunToLead:
    """What a conductor is given: the run, its seats, and what their cluster can do."""

    spec: RunSpec
    order: Order
    lines: Mapping[str, Line]
    seats: Sequence[Seat]
    """All of them; those that are not started yet have no line."""
    run_dir: RunDir
    outcome: Outcome
    began_s: float
    restart: Restart = lambda _seat, _incarnation: None
    """Starts a seat again, if the cluster can: as that of a `Crew`."""
    strike: Callable[[Word], None] = lambda _: None
    """Injects a fault: as that of a `Crew`."""
    policy: DeparturePolicy | None = None
    """Instead of the one that the spec asks for."""
    resumed: Manifest | None = None
    """Of the checkpoint that the run goes on from."""
    faults: Sequence[Fault] = ()
    """Those that are still to strike."""
    again: NextAttempt | None = None
    """What went wrong before, where all seats were started again."""
    now: Callable[[], float] = time.monotonic

    @property
    def stuck_s(self) -> float:
        """How long a seat may be silent: a worker says nothing between two rows."""
        return max(self.spec.stuck_s, 2 * self.spec.record.interval_s) * self.spec.dilation

    @property
    def known_s(self) -> float:
        """Within what time it is known that a seat is gone."""
        return 2 * self.spec.detect_s


@final
class Ensemble:
    """All parts of a conductor."""

    def __init__(self, run: RunToLead) -> None:
        self._run = run
        spec, now = run.spec, run.now
        self.lines = Lines(run.lines)
        self.seats = {seat.name: seat for seat in run.seats}
        self.ledger = _ledger(run)
        self.ending = Ending(self.lines, self.ledger, now)
        started = [each for each in run.seats if each.name in run.lines]
        self.attendance = Attendance(started, self.lines)
        self.leaving = Leaving(self.lines, now)
        self.monitors = Monitors(self.attendance, self.lines, now)
        self.keeping = self._keeping()
        self.handouts = Handouts(run.run_dir, run.resumed.progress if run.resumed else None)
        self.gates = self._gates()
        self.newest = Newest(self.seats, batch=run.order.batch, is_replayed=spec.is_replayed)
        self.inheritance = self._inheritance()
        self.gates.placed = self._placed
        self.pace = Pace(spec, run.order)
        self.silences = Silences(run.stuck_s, run.run_dir, now)
        self.deliveries = self._deliveries()
        self.disturbances = Disturbances(self.ledger, now, run.known_s)
        self.losses = self._losses()
        self.injector = self._injector()

    def _keeping(self) -> Keeping:
        return Keeping(
            self._run.run_dir,
            self.lines.tell,
            outcome=self._run.outcome,
            warn=self.ledger.warn,
            num_kept=self._run.spec.checkpoint_keep,
            now=self._run.now,
        )

    def _gates(self) -> Gates:
        run = self._run
        return Gates(
            run.spec,
            attendance=self.attendance,
            monitors=self.monitors,
            lines=self.lines,
            ledger=self.ledger,
            ending=self.ending,
            agenda=agenda_of(run.spec, run.order, run.resumed),
            keeping=self.keeping,
            now=run.now,
        )

    def _inheritance(self) -> Inheritance:
        spec, order = self._run.spec, self._run.order
        return Inheritance(
            order,
            self.seats,
            newest=self.newest,
            tell=self.lines.tell,
            heirs=self.gates.training,
            is_on=spec.takes_workers_in and spec.strategy.takes_over_rows,
            end=last_batch(spec, order),
            now=self._run.now,
        )

    def _placed(self, start: words.Start, name: str, others: Collection[str]) -> words.Start:
        """Say with which batches a worker begins that comes while these others train."""
        in_step = self._run.spec.strategy.in_step
        num_done = self.newest.begins_at(name, others, in_step=in_step)
        shares = self.inheritance.shares_of(name, num_done)
        return replace(start, num_done=num_done, shares=shares)

    def _deliveries(self) -> Deliveries:
        run = self._run
        return Deliveries(run.run_dir, run.seats, warn=self.ledger.warn, fail=self.ending.fail)

    def _losses(self) -> Losses:
        run, spec = self._run, self._run.spec
        return Losses(
            run.policy or _policy(run),
            seats=self.seats,
            survives=spec.strategy.survives_workers and spec.goes_on,
            servers_return=servers_return(spec),
            common_versions=CommonVersions.of(spec, run.run_dir),
            restart=run.restart,
            strike=run.strike,
            attendance=self.attendance,
            monitors=self.monitors,
            gates=self.gates,
            ledger=self.ledger,
            ending=self.ending,
            inheritance=self.inheritance,
            deliveries=self.deliveries,
            disturbances=self.disturbances,
            last_checkpoint=self._last_checkpoint(),
            recovery_s=run.stuck_s,
            known_s=run.known_s,
            now=run.now,
        )

    def _last_checkpoint(self) -> LastCheckpoint:
        return LastCheckpoint(
            self._run.spec,
            gates=self.gates,
            keeping=self.keeping,
            ending=self.ending,
            ledger=self.ledger,
            num_updates=lambda: self.newest.global_steps,
            within_s=self._run.stuck_s,
            now=self._run.now,
        )

    def _injector(self) -> Injector:
        run = self._run
        return Injector(
            run.faults,
            seed=run.spec.seed,
            strike=run.strike,
            bring_back=self.losses.bring_back if run.spec.takes_workers_in else _leave_away,
            disturbances=self.disturbances,
            now=run.now,
            dilation=run.spec.dilation,
        )


def _ledger(run: RunToLead) -> Ledger:
    setback = None if run.again is None else run.again.setback
    ledger = Ledger(
        run.spec, run.outcome, run.run_dir, began_s=run.began_s, now=run.now, setback=setback
    )
    if run.resumed is not None:
        ledger.go_on(run.resumed.time_s, run.resumed.evaluations)
    return ledger


def _policy(run: RunToLead) -> DeparturePolicy:
    spec, num_before = run.spec, 0 if run.again is None else run.again.number
    return policy_of(spec.when_lost, spec.min_workers, spec.max_restarts, num_before)


def _leave_away(name: str, at_s: float) -> None:
    """Bring nothing back: no seat can be taken in while others train."""
    del name, at_s
