"""Leads the seats of a run from joining to the end: a few words to each, none of them in a step.

Phases: starting (seats join) -> training -> evaluating -> training … -> saving -> evaluating ->
ending.
Evaluation points are gates: every worker that still trains comes to rest there, worker 0
evaluates, all clocks leave out the time from the last arrival to the release.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, final

from paceline.clusters.base import Departure, LinkReport, Seat
from paceline.comm.line import Line, Message
from paceline.fingerprint import Sums, difference
from paceline.learnt import nothing_learnt
from paceline.lines import Lines
from paceline.measure.clock import Clock
from paceline.measure.host import HostUse
from paceline.metrics import metrics_in
from paceline.outcome import Outcome
from paceline.progress import Newest, Phase, Progress, View
from paceline.runs import RunDir
from paceline.silence import Silences
from paceline.spec import RunSpec
from paceline.workloads.order import Order

# How long seats have to leave once they were let go.
_LEAVING_S: Final = 30.0
# How long seats have to write their last rows when a run ends early.
_GRACE_S: Final = 5.0
# How long workers have to end their step when asked to stop: that of a large network takes many
# seconds, and who cannot wait for it asks once more.
_STOPPING_S: Final = 120.0


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
    ) -> None:
        self._spec = spec
        self._order = order
        self._lines = Lines(lines)
        self._seats = {seat.name: seat for seat in seats}
        self._run_dir = run_dir
        self._outcome = outcome
        self._began_s = began_s
        self._phase: Phase = "starting"
        self._pids: dict[str, int] = {}
        self._states: dict[str, Sums] = {}
        self._first_joined_s: float | None = None
        self._training = {name for name, seat in self._seats.items() if seat.role == "worker"}
        self._paused: dict[str, int] = {}
        self._paused_from_s = 0.0
        self._is_saved = False
        self._host_use: HostUse | None = None
        self._here = set(self._seats)
        self._clock = Clock(spec.dilation)
        self._newest = Newest(self._seats, is_replayed=spec.is_replayed)
        self._progress = Progress(spec, order)
        # A worker says nothing between two rows, however far apart these are.
        limit_s = max(spec.stuck_s, 2 * spec.record.interval_s) * spec.dilation
        self._silences = Silences(limit_s, run_dir)
        self._alerts: tuple[str, ...] = ()
        self._handlers = {
            "joined": self._on_joined,
            "status": self._newest.take_status,
            "usage": self._newest.take_usage,
            "noted": self._on_noted,
            "paused": self._on_paused,
            "refused": self._on_refused,
            "trained": self._on_trained,
            "saved": self._on_saved,
            "evaluated": self._on_evaluated,
            "served": self._on_served,
            "failed": self._on_failed,
            "lost": self._on_lost,
        }
        self._noting: set[tuple[str, str]] = set()
        self._then: Callable[[], None] = lambda: None
        self._deadline_s = math.inf
        self._interrupted = False
        self._leaves_early = False
        self.failed_seat: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether every seat has left, or those that are left had time enough to."""
        return not self._here or time.monotonic() >= self._deadline_s

    @property
    def stragglers(self) -> list[str]:
        """Seats that have not left."""
        return sorted(self._here)

    def attend(self, timeout_s: float) -> None:
        """Hear what the seats have to say, for as long as `timeout_s` if they are silent."""
        for name in self._lines.speaking(timeout_s):
            self._hear(name)

    def left(self, departure: Departure) -> None:
        """A seat's process has ended: well, or as the first thing that went wrong."""
        name = departure.seat
        while self._hear(name):
            pass  # its last words may say why
        self._here.discard(name)
        self._lines.hang_up(name)
        if departure.reason or self._phase != "ending":
            self._fail(name, departure.reason or "ended before the run was over")

    def note_nodes(self, links: Sequence[LinkReport], warnings: Sequence[str]) -> None:
        """Keep what is known of the nodes and their links, as soon as it is."""
        if not self._outcome.links:
            self._outcome.links = {each.node: asdict(each) for each in links}
            for row in self._outcome.links.values():
                self._run_dir.append_link(row)
        for text in warnings:
            self._warn(text)

    def look_for_stuck(self, dump: Callable[[str], None]) -> None:
        """Tell of workers that say nothing for too long; fail if the spec says so."""
        for each in self._silences.look(self._working(), dump):
            text = f"{each.seat} was {each}"
            self._alerts += (text,)
            if self._spec.when_stuck == "stop":
                self._fail(each.seat, str(each))
            else:
                self._warn(text)

    def _working(self) -> set[str]:
        """Workers that should be doing something, and not only wait for a word."""
        if self.failed_seat is not None or self._interrupted:
            return set()
        workers = {name for name, seat in self._seats.items() if seat.role == "worker"}
        by_phase = {
            "starting": workers - self._pids.keys(),
            "training": self._training - self._paused.keys(),
            "saving": {"worker0"},
            "evaluating": {"worker0"},
        }
        return by_phase.get(self._phase, set())

    def _warn(self, text: str) -> None:
        """Warn once, and write it down: a driver that is killed seals nothing itself."""
        if text not in self._outcome.warnings:
            self._outcome.warnings.append(text)
            self._run_dir.append_warning(text)

    def interrupt(self) -> None:
        """Stop after the current step and keep what there is; asked twice, stop at once."""
        at_once = self._interrupted or self._phase == "starting"
        self._interrupted = True
        self._outcome.status, self._outcome.reason = "interrupted", "stopped by the user"
        self._lines.tell_all("stop")
        self._deadline_s = 0.0 if at_once else time.monotonic() + _STOPPING_S

    def view(self) -> View:
        """Sum up what is known now."""
        evaluations = self._outcome.evaluations
        return self._progress.view(
            phase="stopping" if self._interrupted and self._training else self._phase,
            time_s=self._clock.now_s(),
            metrics=metrics_in(evaluations[-1]) if evaluations else {},
            alerts=self._alerts,
            **self._newest.known(),
        )

    def _hear(self, name: str) -> bool:
        """Take one message of a seat, if there is one."""
        message = self._lines.receive(name)
        if message is None:
            return False
        self._silences.heard(name)
        self._handlers[message.pop("kind")](name, message)
        return True

    def _on_joined(self, name: str, message: Message) -> None:
        self._pids[name] = message["pid"]
        self._first_joined_s = self._first_joined_s or time.monotonic()
        self._outcome.data = message.get("data") or self._outcome.data
        self._outcome.has_buffers |= message.get("has_buffers", False)
        self._states[name] = message.get("state", {})
        if message.get("converted"):
            self._warn(message["converted"])
        if len(self._pids) == len(self._seats):
            odd = difference(self._states)
            if odd is not None:
                self._fail(*odd)
                return
            self._when_noted("starting", self._start)
            for each, seat in self._seats.items():
                if seat.role == "monitor":
                    self._lines.tell(each, "watch", seats=self._pids_on(seat.node))

    def _when_noted(self, phase: Phase, then: Callable[[], None]) -> None:
        """Go on when every monitor has noted what was carried before a phase.

        Only before training, and when it rests: nobody who trains waits for a monitor.
        """
        watching = [name for name, seat in self._seats.items() if seat.role == "monitor"]
        self._noting, self._then = {(name, phase) for name in watching}, then
        if not watching:
            then()

    def _on_noted(self, name: str, message: Message) -> None:
        noted = (name, message["phase"])
        if noted in self._noting:
            self._noting.discard(noted)
            if not self._noting:
                self._then()

    def _start(self) -> None:
        """Everyone is here: say go."""
        self._host_use = HostUse()
        start_s = time.monotonic()
        self._clock.start(start_s)
        self._outcome.startup_s = start_s - self._began_s
        self._outcome.joining_s = start_s - (self._first_joined_s or start_s)
        self._outcome.evaluation_s = 0.0
        self._enter("training", start_s=start_s)
        self._tell_trainers("start", start_s=start_s)

    def _pids_on(self, node: str) -> dict[str, int]:
        seats = self._seats.values()
        names = [each.name for each in seats if each.node == node and each.role != "monitor"]
        return {name: self._pids[name] for name in names}

    def _on_served(self, name: str, message: Message) -> None:
        self._outcome.servers[name] = message

    def _on_paused(self, name: str, message: Message) -> None:
        self._paused[name] = message["progress"]
        self._evaluate_if_all_rest()

    def _on_refused(self, name: str, message: Message) -> None:
        self._outcome.refused[name] = message

    def _on_trained(self, name: str, message: Message) -> None:
        self._outcome.totals[name] = message
        self._training.discard(name)
        if not self._training:
            self._note_host()
        self._evaluate_if_all_rest()

    def _note_host(self) -> None:
        """How busy the whole machine was since the start."""
        if self._host_use is not None:
            self._outcome.host_cpu_percent = self._host_use.cpu_percent()
            self._outcome.host_cores = os.cpu_count()
            self._outcome.disk_busy_percent = self._host_use.disk_percent()

    def _evaluate_if_all_rest(self) -> None:
        if self._training != set(self._paused) or self.failed_seat is not None:
            return
        if not self._training and self._spec.is_replayed:
            self._finish()  # nothing was learnt: there is nothing to keep or to evaluate
            return
        reason = None if self._training else nothing_learnt(self._outcome.totals)
        if reason is not None and not self._interrupted:
            self._fail(*reason)
            return
        if not self._training and self._spec.record.model and not self._is_saved:
            self._clock.pause(time.monotonic())
            # First of all: an evaluation may fail.
            self._when_noted("saving", lambda: self._lines.tell("worker0", "save"))
            self._enter("saving")
            return
        if not self._training and (self._interrupted or self._is_evaluated()):
            self._finish()
            return
        self._paused_from_s = time.monotonic()
        self._clock.pause(self._paused_from_s)
        self._when_noted("evaluating", lambda: self._lines.tell("worker0", "evaluate"))
        self._enter("evaluating")

    def _on_saved(self, _: str, message: Message) -> None:
        del message
        self._is_saved = True
        self._evaluate_if_all_rest()

    def _on_evaluated(self, _: str, message: Message) -> None:
        now_s = time.monotonic()
        paused_s = now_s - self._paused_from_s
        self._outcome.evaluation_s = (self._outcome.evaluation_s or 0.0) + paused_s
        self._clock.resume(now_s)
        totals = self._outcome.totals.values()
        time_s = self._clock.now_s()
        if not self._training:
            time_s = max(each["train_s"] for each in totals)
        progress = max((self._progress_of(each) for each in totals), default=0)
        progress = max(self._paused.values(), default=progress)
        row = {"time_s": time_s, "progress": progress, **message["metrics"]}
        self._outcome.evaluations.append(row)
        self._run_dir.append_evaluation(row)
        reached = self._target_is_reached(row)
        if reached and self._outcome.seconds_to_target is None:
            self._outcome.seconds_to_target = time_s
        self._resume(paused_s, stop=reached or self._interrupted)

    def _is_evaluated(self) -> bool:
        """Whether nothing was learnt since the last evaluation: a target was reached there."""
        done = max(map(self._progress_of, self._outcome.totals.values()))
        return any(row["progress"] == done for row in self._outcome.evaluations[-1:])

    def _progress_of(self, totals: Message) -> int:
        shared = totals["global_steps"]
        return int(totals["worker_steps"] if shared is None else shared)

    def _target_is_reached(self, metrics: Mapping[str, float]) -> bool:
        targets = self._spec.targets
        return bool(targets) and all(each.is_met(metrics) for each in targets)

    def _resume(self, paused_s: float, *, stop: bool) -> None:
        if not self._training:
            self._finish()
            return
        resting, self._paused = self._paused, {}
        self._enter("training")
        for name in resting:
            self._lines.tell(name, "resume", paused_s=paused_s, stop=stop)

    def _finish(self) -> None:
        """Training is over for all: let everyone go."""
        if self.failed_seat is not None:
            return  # a worker came to its end before it heard that another, or it, had failed
        if not self._interrupted:
            self._outcome.status, self._outcome.reason = "finished", None
        # A sample of what everyone holds is taken before anyone leaves.
        self._when_noted("ending", lambda: self._lines.tell_all("finish"))
        self._enter("ending")
        self._deadline_s = min(self._deadline_s, time.monotonic() + _LEAVING_S)

    def _on_failed(self, name: str, message: Message) -> None:
        self._fail(name, message["error"])

    def _on_lost(self, _: str, message: Message) -> None:
        """A seat no longer reaches another: that one is the cause."""
        self._fail(message["seat"], message["reason"])

    def _fail(self, name: str, reason: str) -> None:
        """The first failure is the cause; the others are told of it and leave."""
        if self.failed_seat is not None:
            return
        if self._interrupted:
            self._leave_early(name, reason)
            return
        self.failed_seat = name
        self._outcome.status, self._outcome.reason = "failed", f"{name}: {reason}"
        self._lines.tell_all("abort", reason=f"{name} failed: {reason}")
        self._deadline_s = time.monotonic() + _GRACE_S

    def _leave_early(self, name: str, reason: str) -> None:
        """A seat fails while the others end their step: they would wait for it in vain."""
        if self._leaves_early:
            return
        self._leaves_early = True
        self._warn(f"{name} failed while the run was stopped: {reason}")
        self._lines.tell_all("abort", reason=f"{name} failed: {reason}")
        self._deadline_s = min(self._deadline_s, time.monotonic() + _GRACE_S)

    def _enter(self, phase: Phase, **fields: float) -> None:
        self._phase = phase
        for name, seat in self._seats.items():
            if seat.role == "monitor":
                self._lines.tell(name, "phase", phase=phase, moment_s=time.monotonic(), **fields)

    def _tell_trainers(self, kind: str, **fields: Any) -> None:
        for name, seat in self._seats.items():
            if seat.role != "monitor":
                self._lines.tell(name, kind, **fields)
