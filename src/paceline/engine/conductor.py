"""Leads the seats of a run from joining to the end: a few words to each, none of them in a step.

It hears what they say and passes it on to those who know what follows: who is here
(`attendance.py`), when all rest (`gates.py`), what a departure means (`departures.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import final

from paceline.clusters.base import Departure
from paceline.comm import monitor_words, words
from paceline.comm.keeper_words import LinkReport
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
from paceline.engine.oddities import UNUSABLE, Odd
from paceline.engine.progress import Newest, Pace, RunView
from paceline.engine.server_returns import servers_return
from paceline.engine.silence import Silences
from paceline.faults import Fault
from paceline.outcome.disturbed import Disturbance
from paceline.outcome.outcome import Outcome
from paceline.seats import role_of
from paceline.sinks.deliveries import Deliveries
from paceline.spec import RunSpec
from paceline.store.checkpoints import Manifest
from paceline.store.runs import RunDir
from paceline.training.metrics import metrics_in
from paceline.workloads.order import Order

_log = logging.getLogger(__name__)


@final
class Conductor:
    """The state of one run, as its driver sees it."""

    def __init__(
        self,
        *,
        spec: RunSpec,
        order: Order,
        lines: Mapping[str, Line],
        seats: Sequence[Seat],
        run_dir: RunDir,
        outcome: Outcome,
        began_s: float,
        restart: Restart = lambda _seat, _incarnation: None,
        strike: Callable[[Word], None] = lambda _: None,
        policy: DeparturePolicy | None = None,
        resumed: Manifest | None = None,
        faults: Sequence[Fault] = (),
        again: NextAttempt | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`restart` starts a seat again, if the cluster can, and `strike` injects a fault: as
        those of a `Crew`. `resumed` is of the checkpoint that the run goes on from; `faults` are
        those that are still to strike, `again` what went wrong before, where all seats were
        started again.
        """
        self._spec = spec
        self._outcome = outcome
        self._lines = Lines(lines)
        setback = None if again is None else again.setback
        self._ledger = Ledger(spec, outcome, run_dir, began_s=began_s, now=now, setback=setback)
        self._ending = Ending(self._lines, self._ledger, now)
        self._seats = {seat.name: seat for seat in seats}
        self._attendance = Attendance([each for each in seats if each.name in lines], self._lines)
        self._leaving = Leaving(self._lines, now)
        self._monitors = Monitors(self._attendance, self._lines, now)
        self._keeping = Keeping(
            run_dir,
            self._lines.tell,
            outcome=outcome,
            warn=self._ledger.warn,
            num_kept=spec.checkpoint_keep,
            now=now,
        )
        self._handouts = Handouts(run_dir, None if resumed is None else resumed.progress)
        self._gates = Gates(
            spec,
            attendance=self._attendance,
            monitors=self._monitors,
            lines=self._lines,
            ledger=self._ledger,
            ending=self._ending,
            agenda=agenda_of(spec, order, resumed),
            keeping=self._keeping,
            now=now,
        )
        if resumed is not None:
            self._ledger.go_on(resumed.time_s, resumed.evaluations)
        self._newest = Newest(self._seats, batch=order.batch, is_replayed=spec.is_replayed)
        self._inheritance = Inheritance(
            order,
            self._seats,
            newest=self._newest,
            tell=self._lines.tell,
            heirs=self._gates.training,
            is_on=spec.takes_workers_in and spec.strategy.takes_over_rows,
            end=last_batch(spec, order),
            now=now,
        )
        self._gates.placed = self._placed
        self._progress = Pace(spec, order)
        # A worker says nothing between two rows, however far apart these are.
        limit_s = max(spec.stuck_s, 2 * spec.record.interval_s) * spec.dilation
        self._silences = Silences(limit_s, run_dir, now)
        self._deliveries = Deliveries(
            run_dir, seats, warn=self._ledger.warn, fail=self._ending.fail
        )
        self._alerts: tuple[str, ...] = ()
        known_s = 2 * spec.detect_s
        self._disturbances = Disturbances(self._ledger, now, known_s)
        last_checkpoint = LastCheckpoint(
            spec,
            gates=self._gates,
            keeping=self._keeping,
            ending=self._ending,
            ledger=self._ledger,
            num_updates=lambda: self._newest.global_steps,
            within_s=limit_s,
            now=now,
        )
        self._losses = Losses(
            policy
            or policy_of(
                spec.when_lost,
                spec.min_workers,
                spec.max_restarts,
                0 if again is None else again.number,
            ),
            seats=self._seats,
            survives=spec.strategy.survives_workers and spec.goes_on,
            servers_return=servers_return(spec),
            common_versions=CommonVersions.of(spec, run_dir),
            restart=restart,
            strike=strike,
            attendance=self._attendance,
            monitors=self._monitors,
            gates=self._gates,
            ledger=self._ledger,
            ending=self._ending,
            inheritance=self._inheritance,
            deliveries=self._deliveries,
            disturbances=self._disturbances,
            last_checkpoint=last_checkpoint,
            recovery_s=limit_s,
            known_s=known_s,
            now=now,
        )
        self._injector = Injector(
            faults,
            seed=spec.seed,
            strike=strike,
            bring_back=self._losses.bring_back if spec.takes_workers_in else _leave_away,
            disturbances=self._disturbances,
            now=now,
            dilation=spec.dilation,
        )

    @property
    def is_over(self) -> bool:
        """Whether every seat has left, and none is to come back; or they had time enough to."""
        is_anyone_left = self._attendance.staying or self._losses.is_anyone_awaited
        return not is_anyone_left or self._ending.is_due

    @property
    def stragglers(self) -> list[str]:
        """Seats that have not left."""
        return self._attendance.staying

    @property
    def failed_seat(self) -> str | None:
        """The first seat that failed, if one did."""
        return self._ending.failed_seat

    def attend(self, timeout_s: float) -> None:
        """Hear what the seats have to say, for as long as `timeout_s` if they are silent."""
        for name, word in self._lines.hear(timeout_s):
            self._take(name, word)
        self._see_off()
        self._losses.attend()
        self._inheritance.attend()
        self._gates.attend()
        self._injector.end_due()
        if self._gates.phase == "ending":
            self._injector.conclude()
        if self._gates.phase == "training" and not self._ending.is_stopping:
            steps = self._newest.global_steps
            roster, taking_part = self._attendance.roster, self._gates.taking_part
            self._injector.strike_due(self._ledger.time_s, steps, roster, taking_part)

    def left(self, departure: Departure) -> None:
        """A seat's process has ended: well, or as the first thing that went wrong."""
        name = departure.seat
        if self._attendance.is_past(name, departure.incarnation):
            return
        self._leaving.add(departure)
        while (word := self._lines.receive(name)) is not None:
            self._take(name, word)  # its last words may say why
        self._see_off()

    def _see_off(self) -> None:
        """Decide on those that have left and said their last words."""
        for departure in self._leaving.gone():
            name, reason = departure.seat, departure.reason
            if departure.is_final and reason not in self._alerts:  # what follows takes a while
                self._alerts += (reason,)
            if self._attendance.is_past(name, departure.incarnation):
                continue  # its last word had it started again
            self._attendance.left(name)
            if reason or self._gates.phase != "ending":
                self._losses.lose(name, reason or "ended before the run was over", "departed")

    def note_nodes(self, links: Sequence[LinkReport], warnings: Sequence[str]) -> None:
        """Keep what is known of the nodes and their links, as soon as it is."""
        self._ledger.note_nodes(links, warnings)

    def look_for_stuck(self, dump: Callable[[str], None]) -> None:
        """Tell of seats that say nothing for too long; fail if the spec says so."""
        for each in self._silences.look(self._gates.working, dump):
            resting = self._resting_at_a_script if each.place.waits else ""
            reason = f"{each}; {resting}" if resting else str(each)
            text = f"{each.seat} was {reason}"
            self._alerts += (text,)
            waits_for_ever = bool(resting) and self._spec.strategy.in_step
            if self._spec.when_stuck == "stop" or waits_for_ever:
                self._ending.fail(each.seat, reason)
            else:
                self._ledger.warn(text)

    @property
    def _resting_at_a_script(self) -> str:
        """Say which workers rest where a script evaluates, and the others do not."""
        gates = self._gates
        if not self._spec.workload.is_script or gates.phase != "training":
            return ""
        workers = (name for name in self._attendance.names("worker") if not gates.has_trained(name))
        resting = sorted({*workers} - gates.working)
        said = "all workers must come to paceline.evaluating(), and only some have"
        return f"{said}: {', '.join(resting)}" if resting else ""

    def interrupt(self) -> None:
        """Stop after the current step and keep what there is; asked twice, stop at once."""
        self._ending.stop(at_once=self._gates.phase == "starting")

    def view(self) -> RunView:
        """Sum up what is known now."""
        evaluations = self._outcome.evaluations
        is_stopping = self._ending.is_stopping and self._gates.is_anyone_training
        return self._progress.view(
            phase="stopping" if is_stopping else self._gates.phase,
            time_s=self._ledger.time_s,
            metrics=metrics_in(evaluations[-1]) if evaluations else {},
            alerts=self._alerts,
            num_faults=self._disturbances.num_faults,
            **self._newest.known(),
        )

    def _take(self, name: str, word: Word) -> None:
        """Take a seat's word; one that cannot be taken is the seat's failure."""
        self._silences.heard(name, word)
        self._leaving.heard(name)
        try:
            self._attendance.check(name, word)
            self._heed(name, word)
        except Odd as error:
            self._losses.lose(name, str(error), "failed")
        except UNUSABLE as error:
            _log.debug("%s said %s", name, word, exc_info=True)
            self._losses.lose(name, str(Odd.unusable(word, error)), "failed")

    def _heed(self, name: str, word: Word) -> None:
        match word:
            case words.Here():
                self._outcome.note_listeners(name, [word.address] if word.address else [])
                self._attendance.here(name, word)
            case words.Joined():
                self._on_joined(name, word)
            case words.Stepped(row):
                self._newest.take_row(name, row)
                shared = row.global_steps
                self._disturbances.updated(row.worker_steps if shared is None else shared)
            case monitor_words.Sampled(sample):
                self._newest.take_sample(name, sample)
            case monitor_words.Noted(phase):
                self._monitors.noted(name, phase)
            case words.Entered(num_before):
                self._gates.entered(name)
                self._newest.entered(name, num_before)
                self._disturbances.back(name)
            case words.TakenOver():
                self._inheritance.taken_over(self._seats[name], word)
            case words.Parted():
                self._on_parted(name, word)
            case words.Restored():
                self._losses.restored(name, word)
            case words.Paused(progress, shares):
                self._gates.paused(name, progress, shares=shares)
            case words.Copied("state"):
                self._keeping.copied(name)
            case words.Kept(what="state"):
                self._keeping.kept(name, word)
            case words.Kept(what="snapshot"):
                self._losses.kept_snapshot(name, word.problem)
            case words.Fetch():
                self._lines.tell(name, self._handouts.portion(word))
            case words.Piece():
                self._deliveries.take(name, word)
            case words.Refused(steps):
                self._outcome.refused[name] = steps
            case words.Trained(account):
                self._inheritance.trained(name)
                self._gates.trained(name, account)
                self._count_rows_lost()
            case words.Settled():
                self._gates.settled(name)
            case words.Saved():
                self._gates.saved(name)
            case words.Evaluated():
                self._gates.evaluated(name, word)
            case words.Logged():
                if self._ledger.logged(word.metrics, word.progress):
                    for each in self._attendance.names("worker"):
                        self._lines.tell(each, words.Stop())
            case words.Served(account):
                self._outcome.servers[name] = account
            case words.Failed(error):
                self._losses.lose(name, error, "failed")
            case words.Lost(seat, reason, incarnation):  # that one is the cause
                if not self._attendance.knows(seat):
                    raise Odd(f"it said that it lost {seat!r}, which is no seat of this run")
                self._losses.reported(name, seat, reason, incarnation)

    def _count_rows_lost(self) -> None:
        if any(_is_worker_away(each) for each in self._outcome.disturbances):
            workers = self._gates.taking_part
            self._outcome.rows_lost = self._inheritance.rows_lost(workers)

    def _placed(self, start: words.Start, name: str, others: Collection[str]) -> words.Start:
        """Say with which batches a worker begins that comes while these others train."""
        num_done = self._newest.begins_at(name, others, in_step=self._spec.strategy.in_step)
        shares = self._inheritance.shares_of(name, num_done)
        return replace(start, num_done=num_done, shares=shares)

    def _on_parted(self, server: str, word: words.Parted) -> None:
        sitting = self._attendance.roster.by_name.get(word.worker)
        if sitting is None or sitting.incarnation <= word.incarnation:  # else another has begun
            self._inheritance.parted(server, word)

    def _on_joined(self, name: str, word: words.Joined) -> None:
        self._ledger.joined(word)
        self._outcome.note_listeners(name, word.listeners)
        self._newest.begins(name, word.num_before)
        self._attendance.joined(name, word.state, word.rows)
        self._newest.joined(name, word.num_steps)
        if self._attendance.is_coming(name):
            self._gates.admit(name)
        elif self._attendance.have_all_joined:
            odd = self._attendance.odd_one()
            if odd is None:
                self._gates.open()
                self._disturbances.trains_again()
            else:
                self._ending.fail(*odd)


def _leave_away(name: str, at_s: float) -> None:
    """Bring nothing back: no seat can be taken in while others train."""
    del name, at_s


def _is_worker_away(each: Disturbance) -> bool:
    """Whether a worker was away while others trained."""
    return each.is_absence and each.lost_step is None and role_of(each.who) == "worker"
