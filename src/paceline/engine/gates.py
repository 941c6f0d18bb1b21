"""When all rest: gates for checkpoints, evaluation and saving, from the common start to the end.

Phases: starting (seats join) -> training -> keeping or evaluating -> training … -> saving ->
evaluating -> ending. Where something is due (`agenda.py`) there is a gate: every worker that still
trains comes to rest there. For a checkpoint every seat copies its state (`keeping.py`). For an
evaluation all workers settle, the first of them evaluates, and all clocks leave out the time from
the last arrival to the release.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import final

from paceline.comm import words
from paceline.comm.words import Phase, Word
from paceline.engine.agenda import Agenda
from paceline.engine.attendance import Attendance
from paceline.engine.ending import Ending
from paceline.engine.keeping import SERVER_AWAY, TOO_OFTEN, Keeping, manifest_of
from paceline.engine.ledger import Ledger
from paceline.engine.lines import Lines
from paceline.engine.monitors import Monitors
from paceline.engine.newcomers import Newcomers
from paceline.engine.oddities import Odd
from paceline.engine.settling import Settling
from paceline.outcome.accounts import WorkerAccount
from paceline.outcome.learnt import nothing_learnt
from paceline.spec import RunSpec

_Placed = Callable[[words.Start, str, Collection[str]], words.Start]


@final
class Gates:
    """Which phase it is, who trains and who rests."""

    def __init__(
        self,
        spec: RunSpec,
        *,
        attendance: Attendance,
        monitors: Monitors,
        lines: Lines,
        ledger: Ledger,
        ending: Ending,
        agenda: Agenda,
        keeping: Keeping,
        now: Callable[[], float],
    ) -> None:
        self._spec = spec
        self._attendance = attendance
        self._monitors = monitors
        self._lines = lines
        self._ledger = ledger
        self._ending = ending
        self._agenda = agenda
        self._keeping = keeping
        self.phase: Phase = "starting"
        self._training = set(attendance.roster.workers)
        self._paused: dict[str, int] = {}
        self._newcomers = Newcomers(now)
        self.placed: _Placed = lambda start, _name, _others: start
        """Adds with which batches a worker begins while these others train."""
        self._settling = Settling(lines.tell)
        self._is_saved = False
        self._keeps = False
        self._is_last_rest = False

    @property
    def is_anyone_training(self) -> bool:
        """Whether any worker has not done its part, at rest or not."""
        return bool(self._training)

    def training(self) -> Collection[str]:
        """Who takes part and has not done its part, at rest or not."""
        return self._training

    def has_trained(self, name: str, is_coming: bool = False) -> bool:
        """Whether a worker has done its part; who was started later may not have begun it."""
        return name not in self._training | self._newcomers.entering and not is_coming

    @property
    def _have_all_trained(self) -> bool:
        """Whether all have done their part; not where those that did not are away, or come."""
        return not self._training and bool(self.taking_part)

    @property
    def taking_part(self) -> set[str]:
        """Workers that train or have trained, so that they have parameters."""
        return {*self._attendance.roster.workers} - self._newcomers.entering

    @property
    def working(self) -> set[str]:
        """Seats that should be doing something, and not only wait for a word."""
        if self._ending.is_aborted or self._ending.is_stopping:
            return set()
        if self.phase == "starting":
            return self._attendance.missing | self._monitors.owing
        if self.phase == "training":
            return self._training - self._paused.keys()
        if self.phase == "keeping":
            return self._keeping.working
        return self._settling.working | self._monitors.owing

    @property
    def is_all_kept(self) -> bool:
        """Whether all rest for the last time, and what they have is written, or cannot be."""
        return self._is_last_rest and self.phase == "keeping" and self._keeping.is_free

    def rest_for_the_last_time(self, progress: int) -> None:
        """Have all rest soon, keep what they have, and train no further.

        Who rests already waits for those that passed by before they heard of it.
        """
        self._is_last_rest = True
        self._agenda.rest_once(progress)
        for name in sorted(self._training - self._paused.keys()):
            self._lines.tell(name, words.RestAt(self._agenda.rest_at or progress))
        self._let_go_on(0.0, stop=self._ending.is_stopping)

    def open(self) -> None:
        """All have joined: training starts when the monitors are ready."""
        self._monitors.watch(self._start)

    def _start(self) -> None:
        if self._ending.is_aborted:
            return
        start_s = self._ledger.started()
        self.phase = "training"
        self._monitors.enter("training", start_s)
        for name in self._attendance.names("worker", "server"):
            self._lines.tell(name, words.Start(start_s, self._agenda.rest_at))

    def paused(self, name: str, progress: int, *, shares: bool = False) -> None:
        """A worker rests at a gate; `shares`: to evaluate a part of the rows."""
        if name in self._newcomers.unrested and name in self._training:
            self._first_pause(name, progress)
            return
        self._check_trains(name, words.Paused)
        self._paused[name] = progress
        self._settling.rests(name, shares=shares)
        self._go_on_if_all_rest()

    def _first_pause(self, name: str, progress: int) -> None:
        """Who came later rests for the first time: with the others, or when they have gone on."""
        self._newcomers.unrested.discard(name)
        rest_at = self._agenda.rest_at
        if self.phase == "training" and (rest_at is None or progress < rest_at):
            stop = self._ending.is_stopping
            self._lines.tell(name, words.Resume(paused_s=0.0, stop=stop, rest_at=rest_at))
            return
        self._paused[name] = progress
        if self.phase == "training":
            self._go_on_if_all_rest()

    def trained(self, name: str, totals: WorkerAccount) -> None:
        """A worker has done its part."""
        is_apart = self.phase != "training" and name in self._newcomers.unrested
        if not is_apart:
            self._check_trains(name, words.Trained)
        self._ledger.trained(name, totals)
        self._count_out(name)
        if not is_apart:
            self._go_on_if_all_rest()

    def _check_trains(self, name: str, said: type[Word]) -> None:
        if self.phase != "training" or name not in self._training or name in self._paused:
            raise Odd.out_of_turn(said)

    def _count_out(self, name: str) -> None:
        if name in self._training:
            self._training.remove(name)
            if not self._training:
                self._ledger.all_trained()

    def settled(self, name: str) -> None:
        """A worker has settled."""
        self._settling.take(name)

    def saved(self, name: str) -> None:
        """The parameters are kept."""
        self._settling.saved(name)
        self._is_saved = True
        if self._training:  # one that was on its way in when all others had trained
            self._resume(self._ledger.resumed(), stop=True)
        else:
            self._go_on_if_all_rest()

    def evaluated(self, name: str, word: words.Evaluated) -> None:
        """The model, or a share of it, is evaluated: the gate opens when all is."""
        self._settling.evaluated(name, word)
        self._go_on_if_evaluated()

    def _go_on_if_evaluated(self) -> None:
        if (metrics := self._settling.found) is None:
            return
        self._settling.end()
        paused_s = self._ledger.resumed()
        progress = max(self._paused.values(), default=None)
        is_reached = self._ledger.evaluated(metrics, progress, is_last=not self._training)
        self._keep_then_resume(paused_s, stop=is_reached or self._ending.is_stopping)

    def forget(self, name: str) -> None:
        """The run goes on without a worker: nobody waits for it."""
        self._count_out(name)
        self._paused.pop(name, None)
        self._newcomers.forget(name)
        self._keeping.forget(name)
        if self.phase == "training":
            self._go_on_if_all_rest()
            self._start_late()
        elif self.phase != "keeping":
            self._settling.forget(name)
            self._go_on_if_evaluated()
            self._go_on_if_in_vain()

    def go_back(self) -> None:
        """A server is back at an earlier version: who rests at a gate trains on towards it."""
        if self.phase != "training" or not self._paused or self._ending.is_aborted:
            return
        self._newcomers.release()
        self._let_go_on(0.0, stop=self._ending.is_stopping)
        self._start_late()

    def admit(self, name: str) -> None:
        """Who was started later has joined: a worker trains as soon as the others do."""
        if self._attendance.is_server(name):  # whatever the others do: they may wait for it
            together = self._spec.strategy.servers_go_back_together
            for each in self._attendance.enroll_servers(name, together=together):
                self._lines.tell(each, self._late_start(each))
            return
        self._newcomers.come(name)
        self._start_late()

    def _start_late(self) -> None:
        """Let in who came later, unless those who are in step with it have come to their end."""
        if self.phase != "training" or not self._takes_in:
            return
        for name in self._newcomers.let_in():
            self._attendance.enroll(name)
            self._lines.tell(name, self._late_start(name))

    @property
    def _takes_in(self) -> bool:
        """Whether others could go on with one that comes now."""
        if self._is_last_rest or (self._paused and self._has_servers):
            return False
        in_step = self._spec.strategy.in_step
        return not in_step or all(each in self._training for each in self.taking_part)

    @property
    def _has_servers(self) -> bool:
        """Whether a worker that steps while others rest leaves something half done at servers.

        They then have no state. Where there are none, those that rest meet a new one themselves.
        """
        return self._spec.strategy.num_servers > 0 or self._attendance.num_servers > 0

    def _late_start(self, name: str) -> words.Start:
        start = words.Start(self._ledger.start_for_late, self._agenda.rest_at, is_late=True)
        return self.placed(start, name, self._training)

    def entered(self, name: str) -> None:
        """A worker that came later takes part from now on."""
        if name not in self._newcomers.entering:
            raise Odd.out_of_turn(words.Entered)
        self._newcomers.entered(name)
        self._training.add(name)
        self._start_late()

    def attend(self) -> None:
        """Wait no longer for who does not do its part at a gate."""
        if self.phase == "training" and self._paused and self._newcomers.is_overdue:
            self._go_on_if_all_rest()
        self._keeping.attend()

    def _go_on_if_all_rest(self) -> None:
        # Who came later may not rest with the others yet: they would wait for each other.
        if (
            self._ending.is_aborted
            or self._training - self._paused.keys() - self._newcomers.unrested
        ):
            return
        if self._paused and self._has_servers and self._newcomers.holds(self._paused):
            return
        self._newcomers.release()
        if self._paused:
            self._pause()
        elif self._have_all_trained:
            self._end()

    def _pause(self) -> None:
        """All who train rest: do what is due, then train on."""
        if self._spec.workload.is_script:  # which says itself when it evaluates
            self._evaluate()
            return
        progress = max(self._paused.values())
        due = self._agenda.arrive(progress, self._ledger.time_s)
        is_any_away = self._attendance.num_servers < self._spec.strategy.num_servers
        self._keeps = due.checkpoint and self._keeping.is_free and not is_any_away
        if due.checkpoint and not self._keeps:
            self._ledger.warn(SERVER_AWAY if is_any_away else TOO_OFTEN)
        if due.evaluation:
            self._evaluate()
        else:
            self._keep_then_resume(0.0, stop=self._ending.is_stopping)

    def _keep_then_resume(self, paused_s: float, *, stop: bool) -> None:
        """Make a checkpoint if one is due: after an evaluation, which it then has."""
        keeps, self._keeps = self._keeps, False
        if not keeps or stop or not self._paused or self._ending.is_aborted:
            self._resume(paused_s, stop=stop)
            return
        if self.phase == "evaluating":
            self._monitors.enter("training")
        self.phase = "keeping"
        workers = [name for name in self._attendance.roster.workers if self._rests(name)]
        self._keeping.begin(
            manifest_of(workers, max(self._paused.values()), self._ledger, self._agenda),
            workers=workers,
            servers=self._attendance.names("server"),
            paused_s=paused_s,
            then=self._resume_when_kept,
        )

    def _resume_when_kept(self) -> None:
        if not self._is_last_rest:
            self._resume(0.0, stop=self._ending.is_stopping)

    def _end(self) -> None:
        """All have trained: keep the parameters, evaluate them, let everyone go."""
        if self._spec.is_replayed:
            self._finish()  # nothing was learnt: there is nothing to keep or to evaluate
            return
        if self._spec.workload.is_script and (self._is_saved or not self._spec.record.model):
            self._finish()  # it evaluates where its own code says so
            return
        reason = (
            None if self._spec.workload.is_script else nothing_learnt(self._ledger.outcome.totals)
        )
        if reason is not None and not self._ending.is_stopping:
            self._ending.fail(*reason)
        elif self._spec.record.model and not self._is_saved:
            self._ledger.saving()
            self._send("saving", words.Save())  # first of all: an evaluation may fail
        elif self._ending.is_stopping or self._ledger.is_evaluated:
            self._finish()
        else:
            self._evaluate()

    def _evaluate(self) -> None:
        self._ledger.evaluating()
        self._send("evaluating", words.Evaluate())

    def _send(self, phase: Phase, errand: Word) -> None:
        """Have one of those that rest do something, when the monitors have noted that all do."""
        self.phase = phase
        self._monitors.enter_then(phase, lambda: self._ask(errand))

    def _ask(self, errand: Word) -> None:
        workers = self._attendance.roster.workers
        self._settling.before(errand, [name for name in workers if self._rests(name)])
        self._go_on_if_in_vain()

    def _go_on_if_in_vain(self) -> None:
        """Whoever rested was started again: they train on, and are evaluated later."""
        if self._settling.is_in_vain:
            self._settling.end()
            self._resume(self._ledger.resumed(), stop=self._ending.is_stopping)

    def _rests(self, name: str) -> bool:
        is_gone_on = name in self._training or name in self._newcomers.entering
        return name in self._paused or not is_gone_on

    def _resume(self, paused_s: float, *, stop: bool) -> None:
        if self._ending.is_aborted:
            return
        if self._have_all_trained:
            self._end()
            return
        if self.phase not in {"training", "keeping"}:
            self._monitors.enter("training")
        self.phase = "training"
        self._let_go_on(paused_s, stop=stop)
        self._start_late()

    def _let_go_on(self, paused_s: float, *, stop: bool) -> None:
        """Have those that rest train on, to the next rest."""
        resting, self._paused = self._paused, {}
        word = words.Resume(paused_s=paused_s, stop=stop, rest_at=self._agenda.rest_at)
        for name in resting:
            self._lines.tell(name, word)

    def _finish(self) -> None:
        """Let everyone go; a sample of what all hold is taken before anyone leaves."""
        self._ending.finish()
        self.phase = "ending"
        self._monitors.enter_then("ending", lambda: self._lines.tell_all(words.Finish()))
