"""A seat's process: build what the spec says, join the others, step, and tell how it went.

`Worker.train` is the loop everything else is there for. Read `driver.py` first.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, final

import torch
from torch import Tensor

from paceline.anatomy import dissect, examine
from paceline.clusters.base import Berth
from paceline.comm.base import Finished
from paceline.comm.line import SeatLine
from paceline.compute.base import Compute
from paceline.compute.real import Real
from paceline.compute.replay import Replay
from paceline.errors import (
    Aborted,
    Changed,
    NotFinite,
    PeerLost,
    Problem,
    SpecError,
    WorkloadError,
)
from paceline.evaluation import Evaluator
from paceline.limits import NEVER, Limits
from paceline.linux import own_pid
from paceline.measure.clock import Clock, virtual
from paceline.measure.monitor import watch_node
from paceline.measure.process_usage import peak_bytes
from paceline.measure.recorder import Recorder
from paceline.measure.thread_usage import ThreadUsage
from paceline.places import profile_of, take_place
from paceline.runs import RunDir, named_beside
from paceline.spec import RunSpec
from paceline.strategies.base import Member
from paceline.workloads.base import Batch, Data, Unread, formula_of, rows_of

# How long a worker that lost another waits for the driver to name it.
_PATIENCE_S: Final = 4.0
# How much a profile covers: steps of a worker, chunks that arrive at a server.
_STEPS_IN_PROFILE: Final = 5
_SERVED_IN_PROFILE: Final = 40
_SAYING_WHAT_TO_MEND: Final = (Changed, NotFinite, SpecError, WorkloadError)

# torch's random numbers are one for all threads, so inline seats make their models in turn.
_BUILDING = threading.Lock()


def main(berth: Berth) -> int:
    """Be one seat of a run; returns the process's exit code."""
    roles = {"worker": _work, "server": _serve, "monitor": _monitor}
    try:
        spec = berth.spec or RunSpec.read(RunDir(berth.run_dir).spec)
        roles[berth.seat.role](berth, spec)
    except (Aborted, PeerLost) as error:
        if isinstance(error, PeerLost):
            _say_lost(berth.line, error)
        with contextlib.suppress(OSError):
            print(f"ended: {error}", file=sys.stderr)  # noqa: T201 - this is the seat's own log
        return 3
    except _SAYING_WHAT_TO_MEND as error:  # lines of our own would not help
        with contextlib.suppress(Aborted):
            berth.line.send("failed", error=str(error)[:4000])
        return 1
    except BaseException as error:  # noqa: BLE001 - whatever it is, the driver must hear of it
        _say_failed(berth.line, error)
        with contextlib.suppress(OSError):  # the log may be what there is no space for
            traceback.print_exc()
        return 1
    return 0


def _say_failed(line: SeatLine, error: BaseException) -> None:
    with contextlib.suppress(Aborted):
        line.send("failed", error=f"{type(error).__name__}: {error}"[:4000])


def _say_lost(line: SeatLine, error: PeerLost) -> None:
    with contextlib.suppress(Aborted):
        line.send("lost", seat=error.seat, reason=error.reason)


def _work(berth: Berth, spec: RunSpec) -> None:
    Worker(berth, spec).run()


def _serve(berth: Berth, spec: RunSpec) -> None:
    profile = profile_of(berth, spec, count=_SERVED_IN_PROFILE)
    with _BUILDING:
        place = take_place(berth, spec, profile)
    berth.line.send("joined", pid=own_pid(), state=place.state_sums)
    counted: Mapping[str, Any] = {}
    usage = ThreadUsage(is_alone=not spec.cluster.shares_process)
    try:
        counted = spec.strategy.serve(place)
    except Finished:
        pass
    finally:
        place.close()
    if profile is not None:
        profile.write(berth.line.wait("start")["start_s"], spec.dilation)
    counted = {**usage.table(), **counted, **place.counted()}
    berth.line.send("served", **virtual(counted, spec.dilation))


def _monitor(berth: Berth, spec: RunSpec) -> None:
    watch_node(
        berth.line,
        RunDir(berth.run_dir).seat_records(berth.seat.node),
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
        self.run_dir = RunDir(berth.run_dir)
        self.train_data: Data = (
            Unread(spec.workload, spec.num_rows())
            if spec.is_replayed
            else rows_of(spec.workload, "train", getattr(torch, spec.dtype))
        )
        self.order = spec.order_of(len(self.train_data))
        self.limits = Limits.of(spec, self.order)
        with _BUILDING:
            place = take_place(berth, spec)
            # Workers start alike, but what they draw while training must differ.
            torch.manual_seed(spec.seed + 1 + self.rank)
        self.place = place
        self.replica = place.replica
        self.replica.model.train()
        self.member: Member = spec.strategy.join(place)
        self.compute = self._make_compute()
        evaluates = self.rank == 0 and not spec.is_replayed
        self.evaluator = Evaluator(spec, self.replica, self.member) if evaluates else None
        if self.evaluator is not None:
            with _BUILDING:
                self.evaluator.try_out()
        seat, keep_all = berth.seat.name, spec.record.loss == "all"
        self.recorder = Recorder(
            self.run_dir.seat_records(seat) if spec.record.steps else None,
            self.run_dir.seat_losses(seat) if keep_all else None,
            has_loss=self.compute.has_loss,
            dilation=spec.dilation,
        )
        self.profile = profile_of(berth, spec, count=_STEPS_IN_PROFILE)
        self.clock = Clock(spec.dilation)
        self.num_steps = 0
        self.touched_rows: int | None = None

    def _make_compute(self) -> Compute:
        spec, member, replica = self.spec, self.member, self.replica
        ready = member.ready if member.overlaps else None
        if not spec.is_replayed:
            formula = None if spec.strategy.needs_autograd else formula_of(spec.workload)
            model = member.wrap(replica.model)
            return Real(
                spec.workload.loss,
                replica,
                ready,
                model,
                formula=formula,
                keeps_changes=member.keeps_changes,
            )
        if replica.table is not None:
            reason = "sparse models cannot be replayed; use --device cpu"
            raise SpecError([Problem("workload", spec.workload.name, reason)])
        layers = examine(spec.workload).layers
        times = spec.rates().layer_times(
            [(each.name, each.multiply_adds) for each in layers], self.order.batch
        )
        replay = Replay(replica, ready, times, rank=self.rank, dilation=spec.dilation)
        if spec.strategy.needs_autograd:
            replay.through_autograd(member.wrap)
        return replay

    def run(self) -> None:
        """Train from the common start to this worker's end, then be there for evaluations."""
        try:
            self.line.send(
                "joined",
                pid=own_pid(),
                data=self.train_data.origin,
                has_buffers=self.replica.has_buffers,
                state=self.place.state_sums,
                converted=self.replica.converted,
            )
            start = self.line.wait("start")
            self.place.start_counting()
            self.clock.start(start["start_s"])
            self.usage = ThreadUsage(is_alone=not self.spec.cluster.shares_process)
            self._train_to_its_end()
            self.line.send("trained", **self._totals())
            if self.profile is not None:
                self.profile.write(start["start_s"], self.spec.dilation)
            if self.rank == 0 and self.spec.record.tensorboard:
                self._draw_graph()
            self._attend("finish")
        finally:
            self.recorder.close()
            self.member.close()
        # Not after a failure: a thread of the member's may still use the channel, which ends with
        # the process, and the driver must hear first what went wrong.
        self.place.close()

    def _train_to_its_end(self) -> None:
        try:
            self.train()
        except Exception as error:
            self._tell_refused(error)
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
            num_steps = self.num_steps + isinstance(error, NotFinite)
            table = {"worker_steps": num_steps, "samples": num_steps * self.order.batch}
            with contextlib.suppress(Aborted):
                self.line.send("refused", **table, **self.place.refusals.table())

    def train(self) -> None:
        """The loop: load, compute, exchange."""
        recorder, member, compute, limits = self.recorder, self.member, self.compute, self.limits
        load, computing, exchange = recorder.load, recorder.compute, recorder.exchange
        batches, bring = self._batches(), self.replica.bringer(member.pull)
        if self.profile is not None:
            batches = self.profile.over(batches)
        interval_ns = int(self.spec.record.interval_s * self.spec.dilation * 1e9)
        next_row_ns = 0
        evaluate_every = self.spec.evaluate_every(self.order) or NEVER
        next_evaluation = evaluate_every
        is_last = not member.starts
        while not is_last:
            with load:
                batch, rows, next_rows = next(batches)
            with exchange:
                wishes_last = self._wants_last(limits)
                member.begin(last=wishes_last)
                if rows is not None:
                    bring(rows)
                if next_rows is not None:
                    member.fetch_ahead(next_rows)
            with computing:
                recorder.losses.append(compute.gradients(batch))
            with exchange:
                is_last = member.exchange(last=wishes_last)
            self.num_steps += 1
            if exchange.ended_ns >= next_row_ns:
                next_row_ns = exchange.ended_ns + interval_ns
                self._write_row()
            if self._progress() >= next_evaluation and not is_last:
                next_evaluation += evaluate_every
                is_last = self._pause()
        self._write_row()

    def _batches(self) -> Iterator[tuple[Batch, Tensor | None, Tensor | None]]:
        """Gather batch after batch, with the table rows it needs, and where asked for the next."""
        if self.member.fetches_ahead and self.replica.table is not None:
            for (batch, rows), (_, next_rows) in itertools.pairwise(self._loaded()):
                yield batch, rows, next_rows
        for batch, rows in self._loaded():
            yield batch, rows, None

    def _loaded(self) -> Iterator[tuple[Batch, Tensor | None]]:
        data = self.train_data
        for batch in data.batches(self.order, self.rank):
            rows = data.touched(batch)
            if rows is not None:
                self.touched_rows = rows.numel()
            yield batch, rows

    def _progress(self) -> int:
        """Global steps; where there are none, this worker's own."""
        shared = self.member.global_steps
        return self.num_steps if shared is None else shared

    def _wants_last(self, limits: Limits) -> bool:
        """Whether this worker wishes the step it begins to be its last."""
        if self.num_steps + 1 >= limits.worker_steps or self.line.stop_wanted:
            return True
        shared = self.member.global_steps
        if shared is not None and shared + 1 >= limits.global_steps:
            return not self.member.limits_steps
        return limits.seconds is not math.inf and self.clock.now_s() >= limits.seconds

    def _write_row(self) -> None:
        """Write down the steps since the last row, and look whether the driver said anything."""
        if self.recorder.losses:
            self.recorder.move_to_exchange(self.member.take_waited_ns())
            if self.profile is not None:
                self.recorder.load.total_ns -= self.profile.take_spent_ns()
            samples = self.num_steps * self.order.batch
            member = self.member
            row = self.recorder.write(
                self.clock.now_s(), samples, member.global_steps, member.exchanged()
            )
            self.line.offer("status", **row)
            self.compute.check()
        self.run_dir.check_there()
        self.line.poll()

    def _pause(self) -> bool:
        """Wait at an evaluation point with all others; returns whether training ends there."""
        self._write_row()
        self.line.send("paused", progress=self._progress())
        with self.usage.left_out():
            message = self._attend("resume")
        self.clock.leave_out(message["paused_s"])
        return bool(message["stop"])

    def _attend(self, until: str) -> dict[str, Any]:
        """Evaluate and save whenever asked, until told to go on."""
        while True:
            message = self.line.wait("evaluate", "save", until)
            if message["kind"] == until:
                return message
            if message["kind"] == "save":
                self._save()
                self.line.send("saved")
            else:
                assert self.evaluator is not None
                self.line.send("evaluated", metrics=self.evaluator.metrics())

    def _draw_graph(self) -> None:
        """Note how data flows through the model; one that cannot be drawn is no failure."""
        try:
            row = self.train_data.take(torch.zeros(1, dtype=torch.int64))
            anatomy = dissect(self.replica.model, self.spec.workload.loss, row)
            self.run_dir.write_graph(asdict(node) for node in anatomy.nodes)
        except Exception as error:  # noqa: BLE001 - the user's model, seen in an unusual way
            print(f"no graph: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201

    def _totals(self) -> dict[str, Any]:
        return {
            "train_s": self.clock.now_s(),
            "worker_steps": self.num_steps,
            "samples": self.num_steps * self.order.batch,
            "global_steps": self.member.global_steps,
            "final_loss": self.recorder.final_loss(),
            "model_bytes": self.replica.num_bytes,
            "touched_rows": self.touched_rows,
            "row_bytes": self.replica.row_bytes,
            "memory_peak_bytes": peak_bytes(),
            "parameter_bytes": self._parameter_bytes(),
            "odd_losses": self.recorder.num_odd,
            **virtual(self._counted(), self.spec.dilation),
            **self.train_data.counted(),
            **self.place.refusals.table(),
            **self.place.counted(),
        }

    def _parameter_bytes(self) -> int | None:
        """How much there is to exchange in a step; of a table it depends on the batch."""
        replica = self.replica
        return replica.parameters.nbytes if replica.table is None else None

    def _counted(self) -> dict[str, Any]:
        return {**self.usage.table(), **self.member.counted(), **self.compute.counted()}

    def _save(self) -> None:
        """Keep the final parameters."""
        self.member.refresh()
        from safetensors.torch import save_file

        state = {key: value.contiguous() for key, value in self.replica.state().items()}
        table = self.member.table_values()
        if table is not None:
            state["rows"] = table
        copies = {key: value.clone() for key, value in state.items()}
        named_beside(self.run_dir.model, lambda path: save_file(copies, path))
