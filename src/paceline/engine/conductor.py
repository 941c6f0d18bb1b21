"""Leads the seats of a run from joining to the end: a few words to each, none of them in a step.

It hears what they say and passes it on to those who know what follows: who is here
(`attendance.py`), when all rest (`gates.py`), what a departure means (`departures.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import final

from paceline.clusters.base import Departure
from paceline.comm import monitor_words, words
from paceline.comm.keeper_words import LinkReport
from paceline.comm.words import Word
from paceline.engine.ensemble import Ensemble, RunToLead
from paceline.engine.oddities import UNUSABLE, Odd
from paceline.engine.progress import RunView
from paceline.outcome.disturbed import Disturbance
from paceline.seats import role_of
from paceline.training.metrics import metrics_in

_log = logging.getLogger(__name__)


@final
class Conductor:
    """The state of one run, as its driver sees it."""

    def __init__(self, run: RunToLead) -> None:
        self._spec, self._outcome = run.spec, run.outcome
        parts = Ensemble(run)
        self._seats, self._lines = parts.seats, parts.lines
        self._attendance, self._leaving = parts.attendance, parts.leaving
        self._gates, self._monitors = parts.gates, parts.monitors
        self._keeping, self._handouts = parts.keeping, parts.handouts
        self._losses, self._inheritance = parts.losses, parts.inheritance
        self._disturbances, self._injector = parts.disturbances, parts.injector
        self._silences, self._deliveries = parts.silences, parts.deliveries
        self._newest, self._pace = parts.newest, parts.pace
        self._ledger, self._ending = parts.ledger, parts.ending
        self._alerts: tuple[str, ...] = ()

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
        return self._pace.view(
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
        """Pass a word on to whom it concerns: rows and files here, all others below."""
        match word:
            case words.Stepped(row):
                self._newest.take_row(name, row)
                shared = row.global_steps
                self._disturbances.updated(row.worker_steps if shared is None else shared)
            case monitor_words.Sampled(sample):
                self._newest.take_sample(name, sample)
            case monitor_words.Noted(phase):
                self._monitors.noted(name, phase)
            case words.Fetch():
                self._lines.tell(name, self._handouts.portion(word))
            case words.Piece():
                self._deliveries.take(name, word)
            case _:
                self._heed_place(name, word)

    def _heed_place(self, name: str, word: Word) -> None:
        """Take what a seat says of its place among the others."""
        match word:
            case words.Here():
                self._outcome.note_listeners(name, [word.address] if word.address else [])
                self._attendance.here(name, word)
            case words.Joined():
                self._on_joined(name, word)
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
            case _:
                self._heed_rest(name, word)

    def _heed_rest(self, name: str, word: Word) -> None:
        """Take what a seat says at a gate, and of the state that it copied there."""
        match word:
            case words.Paused(progress, shares):
                self._gates.paused(name, progress, shares=shares)
            case words.Settled():
                self._gates.settled(name)
            case words.Saved():
                self._gates.saved(name)
            case words.Evaluated():
                self._gates.evaluated(name, word)
            case words.Copied("state"):
                self._keeping.copied(name)
            case words.Kept(what="state"):
                self._keeping.kept(name, word)
            case words.Kept(what="snapshot"):
                self._losses.kept_snapshot(name, word.problem)
            case _:
                self._heed_account(name, word)

    def _heed_account(self, name: str, word: Word) -> None:
        """Take what a seat found or has done, or why it cannot go on."""
        match word:
            case words.Logged():
                if self._ledger.logged(word.metrics, word.progress):
                    for each in self._attendance.names("worker"):
                        self._lines.tell(each, words.Stop())
            case words.Trained(account):
                self._inheritance.trained(name)
                self._gates.trained(name, account)
                self._count_rows_lost()
            case words.Served(account):
                self._outcome.servers[name] = account
            case words.Refused(steps):
                self._outcome.refused[name] = steps
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


def _is_worker_away(each: Disturbance) -> bool:
    """Whether a worker was away while others trained."""
    return each.is_absence and each.lost_step is None and role_of(each.who) == "worker"
