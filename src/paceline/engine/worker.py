"""A seat's process: build what the spec says, join the others, step, and tell how it went.

The steps themselves are in `session.py`. Read `driver.py` first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import traceback
from collections.abc import Iterator
from functools import cached_property
from typing import Final, TypeVar, final

import torch

from paceline.clusters.base import Berth
from paceline.comm import words
from paceline.comm.base import Finished
from paceline.comm.seat_line import SeatLine
from paceline.engine.computing import compute_of
from paceline.engine.evaluation import Evaluator
from paceline.engine.feed import Feed
from paceline.engine.graph import draw_graph
from paceline.engine.limits import NEVER
from paceline.engine.restoring import States
from paceline.engine.row_writer import RowWriter
from paceline.engine.seating import BUILDING, profile_of, spec_of, take_place
from paceline.engine.serving import serve
from paceline.engine.session import WorkerSession
from paceline.engine.taking_over import take_over_when_told
from paceline.engine.upkeep import Upkeep
from paceline.engine.worker_account import account_of_worker
from paceline.engine.worker_state import kept_state, restore_worker
from paceline.errors import (
    Aborted,
    Changed,
    NotFinite,
    PeerLost,
    ScriptFailed,
    SpecError,
    WorkloadError,
)
from paceline.measure.clock import Clock
from paceline.measure.monitor import watch_node
from paceline.measure.recorder import Recorder
from paceline.measure.thread_usage import ThreadUsage
from paceline.outcome.accounts import RefusedSteps, RowsHeld
from paceline.spec import RunSpec
from paceline.strategies.base import Member
from paceline.system.listeners import own_listeners
from paceline.workloads.base import Data, Unread, loop_of, rows_of

W = TypeVar("W", bound=words.Word)

# How long a worker that lost another waits for the driver to name it.
_PATIENCE_S: Final = 4.0
# How often a worker at rest looks whether others came or went.
_LOOK_S: Final = 0.05
# How many steps a profile covers.
_STEPS_IN_PROFILE: Final = 5
_SAYING_WHAT_TO_MEND: Final = (
    Changed,
    NotFinite,
    ScriptFailed,
    SpecError,
    WorkloadError,
)


def main(berth: Berth) -> int:
    """Be one seat of a run; returns the process's exit code."""
    roles = {"worker": _work, "server": serve, "monitor": _monitor}
    try:
        spec = berth.spec or spec_of(berth.ticket)
        if spec.workload.is_script:
            from paceline.engine.scripted import serving, worker

            roles |= {"worker": worker.work, "server": serving.serve}
        roles[berth.seat.role](berth, spec)
    except (Aborted, PeerLost) as error:
        if isinstance(error, PeerLost):
            _say_lost(berth.line, error)
        with contextlib.suppress(OSError):
            print(f"ended: {error}", file=sys.stderr)  # noqa: T201 - this is the seat's own log
        return 3
    except _SAYING_WHAT_TO_MEND as error:  # lines of our own would not help
        _say_failed(berth, str(error))
        return 1
    except BaseException as error:  # noqa: BLE001 - whatever it is, the driver must hear of it
        _say_failed(berth, f"{type(error).__name__}: {error}")
        with contextlib.suppress(OSError):  # the log may be what there is no space for
            traceback.print_exc()
        return 1
    return 0


def _say_failed(berth: Berth, reason: str) -> None:
    """Say what is wrong, and where it is, if that is another machine than the driver's."""
    label = berth.ticket.label
    with contextlib.suppress(Aborted):
        berth.line.send(words.Failed(f"on {label}: {reason}"[:4000] if label else reason[:4000]))


def _say_lost(line: SeatLine, error: PeerLost) -> None:
    with contextlib.suppress(Aborted):
        line.say_lost(error)


def _work(berth: Berth, spec: RunSpec) -> None:
    Worker(berth, spec).run()


def _monitor(berth: Berth, spec: RunSpec) -> None:
    watch_node(
        berth.line,
        berth.sink,
        spec.record.monitor_s,
        berth.meter,
        spec.dilation,
    )


@final
class Worker:
    """One worker of a run."""

    def __init__(self, berth: Berth, spec: RunSpec) -> None:
        self.spec = spec
        self.line = berth.line
        self.rank = berth.seat.index
        self.label = berth.ticket.label
        self.sink = berth.sink
        self.train_data: Data = (
            Unread(spec.workload, spec.num_rows())
            if spec.is_replayed
            else rows_of(spec.workload, "train", getattr(torch, spec.dtype))
        )
        self.order = spec.order_of(len(self.train_data))
        with BUILDING:
            place = take_place(berth, spec)
            # Workers start alike, but what they draw while training must differ.
            torch.manual_seed(spec.seed + 1 + self.rank)
        self.place = place
        self.replica = place.replica
        self.replica.model.train()
        self.member: Member = spec.strategy.join(place)
        self.compute = compute_of(spec, self.member, self.replica, self.rank, self.order.batch)
        if self.rank == 0 and not spec.is_replayed:
            evaluator = self.evaluator
            with BUILDING:
                evaluator.try_out()
        self.recorder = Recorder(
            self.sink,
            keeps_rows=spec.record.steps,
            keeps_losses=spec.record.loss == "all",
            has_loss=self.compute.has_loss,
            dilation=spec.dilation,
        )
        self.profile = profile_of(berth, spec, count=_STEPS_IN_PROFILE)
        self.clock = Clock(spec.dilation, berth.line.clock)
        self.feed = Feed(
            self.train_data,
            self.order,
            self.rank,
            looks_ahead=self.member.fetches_ahead and self.replica.table is not None,
        )
        self.session = WorkerSession(
            spec,
            feed=self.feed,
            replica=self.replica,
            member=self.member,
            compute=self.compute,
            rows=self._row_writer(),
            rest=self._rest,
        )
        self.upkeep = Upkeep(self.line, self.sink)
        # Who comes while the others train goes on from where they are.
        if berth.ticket.orders.resumed is not None and not self.place.is_late:
            restore_worker(self, States(berth), berth.ticket.orders.resumed)

    @cached_property
    def evaluator(self) -> Evaluator:
        """Any worker may be asked to evaluate; only worker 0 has the test rows ready before."""
        return Evaluator(self.spec, self.replica, self.member)

    def _row_writer(self) -> RowWriter:
        return RowWriter(
            self.recorder,
            clock=self.clock,
            line=self.line,
            sink=self.sink,
            member=self.member,
            compute=self.compute,
            profile=self.profile,
        )

    def run(self) -> None:
        """Train from the common start to this worker's end, then be there for evaluations."""
        try:
            joined = words.Joined(
                data=self.train_data.origin,
                rows=self._rows_held(),
                has_buffers=self.replica.has_buffers,
                num_steps=self.session.num_steps,
                state=dict(self.place.state_sums),
                converted=self.replica.converted,
                num_before=self.session.num_before,
                listeners=[] if self.spec.cluster.shares_process else own_listeners(),
            )
            self.line.send(joined)
            self._prepare_upkeep()
            take_over_when_told(self.line, self.feed, self.session)
            start: words.Word = self.line.wait(words.Start, words.Finish)
            if not isinstance(start, words.Start):  # the others came to their end meanwhile
                return
            self.place.start_counting()
            self.clock.start(start.start_s)
            self.session.rest_at = start.rest_at or NEVER
            self.usage = ThreadUsage(is_alone=not self.spec.cluster.shares_process)
            with self._naming_who_is_lost():
                try:
                    if start.is_late:
                        self._enter(start)
                except Finished:
                    return  # the others came to their end before they took it in
                self._train_to_its_end()
            self.line.send(words.Trained(account_of_worker(self)))
            if self.profile is not None:
                self.profile.write(self.line.clock() - start.start_s, self.spec.dilation)
            if self.rank == 0 and self.spec.record.tensorboard:
                draw_graph(self)
            with self._naming_who_is_lost():
                self._attend(words.Finish)
        finally:
            self.member.close()
        self.upkeep.close()
        # Not after a failure: a thread of the member's may still use the channel, which ends with
        # the process, and the driver must hear first what went wrong.
        self.place.close()

    def _enter(self, start: words.Start) -> None:
        """Take part among workers that train already, from where they are."""
        is_over = self.member.enter()
        num_done = max(self.member.num_begun, start.num_done)
        self.feed.order = dataclasses.replace(self.feed.order, start=num_done)
        if start.shares:
            self.feed.begin_with(start.shares)
        self.session.enter(num_done, is_over=is_over, shares=start.shares)
        self.line.send(words.Entered(num_done))
        self.session.rest_if_due()

    def _prepare_upkeep(self) -> None:
        """Make room for copies while others still join; a worker that goes on may owe an answer."""
        if self.spec.checkpoint_every is not None and not self.session.num_steps:
            self.upkeep.prepare(kept_state(self, is_first=self.rank == 0))

    def _rows_held(self) -> RowsHeld | None:
        """Say what is read here, where that is another machine than the driver's."""
        if self.label is None or self.spec.is_replayed:
            return None
        return RowsHeld(
            where=self.label,
            origin=self.train_data.origin,
            number=len(self.train_data),
            checksum=self.train_data.checksum(),
        )

    def _train_to_its_end(self) -> None:
        try:
            loop_of(self.spec.workload)(self.session)
            self.session.finish()
        except Exception as error:
            self._tell_refused(error)
            raise

    @contextlib.contextmanager
    def _naming_who_is_lost(self) -> Iterator[None]:
        """Turn an error that only says that another seat is gone into one that says which."""
        try:
            yield
        except Exception as error:
            if not self.member.is_lost_peer(error):
                raise
            if self.member.lost_peer() is None:
                # The driver may know which seat is gone; we only know that somebody is.
                self.line.await_abort(_PATIENCE_S)
            raise (self.member.lost_peer() or error) from None

    def _tell_refused(self, error: Exception) -> None:
        """Say how many steps were refused: a run that fails has no totals of its workers."""
        if self.place.refusals.flaws:
            # The step that was one too many was made as well.
            one_more = isinstance(error, NotFinite)
            steps = RefusedSteps(
                worker_steps=self.session.num_steps + one_more,
                samples=self.session.num_samples + one_more * self.order.batch,
                **self.place.refusals.table(),
            )
            with contextlib.suppress(Aborted):
                self.line.send(words.Refused(steps))

    def _rest(self, progress: int) -> bool:
        """Wait at a gate with all others; returns whether training ends there."""
        self.line.send(words.Paused(progress))
        with self.usage.left_out():
            resumed = self._attend(words.Resume)
        self.clock.leave_out(resumed.paused_s)
        self.session.rest_at = resumed.rest_at or NEVER
        return resumed.stop

    def _attend(self, until: type[W]) -> W:
        """Settle, evaluate, save and copy whenever asked, until told to go on."""
        while True:
            word = self._next_word(until)
            if isinstance(word, until):
                return word
            self.compute.settle()
            if isinstance(word, words.Settle):
                self.member.is_looked_at = word.is_looked_at
                self.member.settle()
                self.line.send(words.Settled())
            elif isinstance(word, words.Keep):
                self.clock.leave_out(word.paused_s)
                self.upkeep.keep(word.what, kept_state(self, is_first=word.is_first))
            elif isinstance(word, words.Save):
                self._save()
                self.line.send(words.Saved())
            else:
                self.line.send(words.Evaluated(self.evaluator.metrics()))

    def _next_word(self, until: type[W]) -> words.Word:
        """Wait for a word; who is met again meanwhile may need what this worker has."""
        kinds: tuple[type[words.Word], ...] = (
            words.Settle,
            words.Evaluate,
            words.Save,
            words.Keep,
            until,
        )
        if not self.place.survives:
            return self.line.wait(*kinds)
        while (word := self.line.wait_a_while(_LOOK_S, *kinds)) is None:
            with contextlib.suppress(Finished):  # the word for it comes next
                self.member.regroup()
        return word

    def _save(self) -> None:
        """Keep the final parameters."""
        from safetensors.torch import save_file

        state = {key: value.contiguous() for key, value in self.replica.to_keep().items()}
        table = self.member.table_values()
        if table is not None:
            state["rows"] = table
        copies = {key: value.clone() for key, value in state.items()}
        self.sink.put("model", lambda path: save_file(copies, path))
