"""The driver: create the run, seat the processes, start them together, wait, seal.

Read this file first, then `worker.py`: together they are the story of a run.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, final

from paceline.clusters.base import SEAT_VARIABLE, Crew, Job
from paceline.clusters.luggage import Packed
from paceline.clusters.zygote import Zygote
from paceline.engine.again import Beginning, NextAttempt
from paceline.engine.conductor import Conductor
from paceline.engine.ensemble import RunToLead
from paceline.engine.known import cores_of, facts_of
from paceline.engine.latency import check_latency
from paceline.engine.notes import naming_host, note_host, note_limit, note_stragglers, note_uneven
from paceline.engine.origin import Origin
from paceline.engine.packing import keep_source, luggage_of
from paceline.engine.plain import plain_connections
from paceline.engine.progress import RunView
from paceline.engine.shown import Printed
from paceline.engine.stopping import StopRequests
from paceline.engine.threads import Threads, decide, must_be_measured
from paceline.errors import (
    Interrupted,
    NotHere,
    Problem,
    RunError,
    SeatFailed,
    SpecError,
    StoreError,
)
from paceline.faults import late_seats
from paceline.measure.environment import capture, steal_seconds
from paceline.outcome.disturbed import Setback
from paceline.outcome.facts import Facts
from paceline.outcome.outcome import Outcome
from paceline.outcome.results import PairRate, Result
from paceline.spec import RunSpec
from paceline.store.runs import DEFAULT_OUT, RunDir, create_run
from paceline.store.sealing import seal
from paceline.system import address_space
from paceline.workloads.order import Order

WatchRun = Callable[[RunView], None]

_SEATS_MODULE: Final = "paceline.engine.worker"
_TICK_S: Final = 0.1


def run(
    spec: RunSpec,
    *,
    out: Path | str = DEFAULT_OUT,
    watch: WatchRun | None = None,
    zygote: Zygote | None = None,
    origin: Origin | None = None,
) -> Result:
    """Carry out a run and give its result, of the last attempt where it was started again.

    Raises `SpecError`, `DataError` or `StoreError` before anything is started, and `NodeMissing`,
    `SeatFailed` or `Interrupted`, with the sealed run's result, after. `watch` is called about ten
    times a second with what is known so far. Runs that are given the same `zygote` import torch
    once. With an `origin` the run goes on from a checkpoint of another one.
    """
    if zygote is None:
        with Zygote() as own:
            return run(spec, out=out, watch=watch, zygote=own, origin=origin)
    began_s = time.monotonic()
    refuse_in_a_seat("paceline.run")
    address_space.check()
    spec, watch = spec.checked(), watch or (lambda _: None)
    _check_sources(spec)
    if not spec.is_replayed:
        _prepare(spec, watch)
    order = spec.check_data()
    spec.cluster.verify()
    check_latency(spec)
    # What follows here takes a while, and importing torch longer: both at once.
    spec.cluster.warm_up(zygote, _imports(spec))
    spec, threads = _with_threads(spec, watch, zygote)
    luggage = luggage_of(spec)
    facts = dataclasses.replace(
        facts_of(spec, order),
        threads_why=threads.why if threads.is_measured else None,
        sent_files={each.name: each.digest for each in luggage},
    )
    return _Course(spec, order, facts, luggage, Path(out), watch, zygote).carry_out(began_s, origin)


@final
@dataclasses.dataclass(frozen=True)
class _Course:
    """A run whose parts are all there, and its attempts: one, unless a loss starts it again."""

    spec: RunSpec
    order: Order
    facts: Facts
    luggage: Sequence[Packed]
    out: Path
    watch: WatchRun
    zygote: Zygote

    def carry_out(self, began_s: float, origin: Origin | None) -> Result:
        """Make attempts until one is the last."""
        begin = Beginning(origin)
        while True:
            result, failure, setback = self._attempt(began_s, begin)
            if failure is None:
                return result
            failure.result = result
            if setback is None or isinstance(failure, Interrupted):
                raise failure
            try:
                began_s = time.monotonic()
                begin = Beginning.again(
                    NextAttempt.after(result, setback, begin.after, self.spec.dilation)
                )
                self._tell(failure, begin)
            except KeyboardInterrupt:
                raise _stopped_between(result) from None

    def _tell(self, failure: RunError, begin: Beginning) -> None:
        assert begin.after is not None
        count = f"{begin.after.number} of at most {self.spec.max_restarts}"
        self.watch(RunView.starting(f"{failure}: starting again ({count})"))

    def _attempt(
        self, began_s: float, begin: Beginning
    ) -> tuple[Result, RunError | None, Setback | None]:
        """Create a run, carry it out and seal it; gives its result and what went wrong."""
        spec, stolen_s = self.spec, steal_seconds()
        facts = dataclasses.replace(self.facts, **begin.facts())
        run_dir = create_run(
            self.out,
            f"{_short(spec.workload.name)}-{_short(spec.strategy.name)}",
            spec=spec.toml(),
            facts=facts.table(),
            environment=capture(),
        )
        outcome = Outcome(status="failed", reason="it did not finish")
        begin.note(outcome)
        try:
            resumed = begin.lay_out(run_dir, outcome, spec.num_workers)
            job = _job(spec, run_dir, self.luggage, self.watch, self.zygote)
            failure = _carry_out(
                dataclasses.replace(job, resumed=resumed),
                spec=spec,
                order=self.order,
                run_dir=run_dir,
                outcome=outcome,
                watch=self.watch,
                began_s=began_s,
                begin=begin,
            )
        except MemoryError:
            outcome.status, outcome.reason = "failed", "the driver ran out of memory"
            failure = RunError(outcome.reason)
        finally:
            note_limit(outcome)
            if outcome.setback is not None:
                outcome.warnings.append("all seats are started again in a run that goes on from it")
            if stolen_s is not None:
                outcome.steal_s = (steal_seconds() or stolen_s) - stolen_s
            result = _seal(run_dir, _facts_seen(facts, spec, outcome), outcome)
            run_dir.let_go()
        return result, failure, outcome.setback


def _stopped_between(result: Result) -> Interrupted:
    stopped = Interrupted("stopped by the user while all seats were started again")
    stopped.result = result
    return stopped


def _with_threads(spec: RunSpec, watch: WatchRun, zygote: Zygote | None) -> tuple[RunSpec, Threads]:
    """Decide how many threads a worker has; what was measured is kept, so that the run repeats."""
    if must_be_measured([spec]):
        watch(RunView.preparing("measuring how many threads are best", 0, 1))
    threads = decide([spec], zygote)
    if threads.is_measured:
        spec = dataclasses.replace(spec, threads=threads.number)
    return spec, threads


def _prepare(spec: RunSpec, watch: WatchRun) -> None:
    """Have the workload make what it makes once, and show how far it is, a few times a second."""
    told_s = 0.0

    def progress(message: str, done: int, total: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= _TICK_S:
            told_s = time.monotonic()
            watch(RunView.preparing(message, done, total))

    spec.workload.prepare(progress)


def _imports(spec: RunSpec) -> list[str]:
    """Modules that every seat will need."""
    return [_SEATS_MODULE, *spec.strategy.imports]


def _job(
    spec: RunSpec, run_dir: RunDir, luggage: Sequence[Packed], watch: WatchRun, zygote: Zygote
) -> Job:
    """What the cluster is asked to start."""
    seats = [each for each in spec.seats() if spec.record.monitor or each.role != "monitor"]
    return Job(
        run_dir=run_dir.path.resolve(),
        run_key=secrets.token_bytes(16),
        entry=f"{_SEATS_MODULE}:main",
        seats=seats,
        threads=spec.threads_each,
        detect_s=spec.detect_s,
        late=late_seats(spec.fault),
        dilation=spec.dilation,
        imports=_imports(spec),
        zygote=zygote,
        text=spec.toml(),
        spec=spec,
        luggage=luggage,
        threads_on=spec.threads_on,
        tell=lambda note: watch(RunView.starting(note)),
    )


def _facts_seen(facts: Facts, spec: RunSpec, outcome: Outcome) -> Facts:
    """Facts, with what the nodes turned out to have."""
    if outcome.own_batch is not None:
        facts = dataclasses.replace(facts, batch_size=outcome.own_batch)
    if not outcome.is_capped:
        cores = cores_of(spec, facts.seats, are_capped=False)
        facts = dataclasses.replace(facts, num_cores=cores)
    return facts.with_nodes(
        outcome.num_cores, outcome.node_threads, is_given=spec.threads is not None
    )


def _warn_of_plain(spec: RunSpec, run_dir: RunDir, outcome: Outcome) -> None:
    """Say what is not encrypted where the rest is."""
    warnings = [*plain_connections(spec.strategy, spec.cluster)]
    outcome.warnings += warnings
    for each in warnings:
        run_dir.append_warning(each)


def _carry_out(
    job: Job,
    *,
    spec: RunSpec,
    order: Order,
    run_dir: RunDir,
    outcome: Outcome,
    watch: WatchRun,
    began_s: float,
    begin: Beginning,
) -> RunError | None:
    """Start the seats and lead them to the end; returns what went wrong, if anything did."""
    _warn_of_plain(spec, run_dir, outcome)
    crew: Crew | None = None
    try:
        keep_source(run_dir, spec)
        crew = spec.cluster.start(job)
        outcome.num_cores, outcome.node_threads = dict(crew.cores), dict(crew.threads)
        outcome.pairs = tuple(PairRate(**dataclasses.asdict(each)) for each in crew.pairs)
        outcome.note_listeners("driver", crew.listeners)
        to_lead = RunToLead(
            spec=spec,
            order=order,
            lines=crew.lines,
            seats=job.seats,
            run_dir=run_dir,
            outcome=outcome,
            began_s=began_s,
            restart=crew.restart,
            resumed=begin.manifest,
            faults=begin.faults_left(spec.fault),
            again=begin.after,
            strike=crew.strike,
        )
        conductor = Conductor(to_lead)
        labels = crew.labels

        def show(view: RunView) -> None:
            watch(naming_host(view, job.seats, labels, conductor.failed_seat, outcome))

        if spec.workload.is_script:
            printed = Printed(run_dir, show)
            _lead(conductor, crew, printed.show)
            printed.show_rest(conductor.view())
            note_uneven(spec, outcome)
        else:
            _lead(conductor, crew, show)
        note_stragglers(conductor, outcome)
        note_host(job.seats, labels, conductor.failed_seat, outcome)
        return _failure(run_dir, outcome, conductor.failed_seat)
    except KeyboardInterrupt:  # before the seats are led, or after: then it is answered gently
        outcome.status, outcome.reason = "interrupted", "stopped by the user"
        return Interrupted(outcome.reason)
    except RunError as error:
        outcome.reason = str(error)
        return error
    except OSError as error:
        outcome.reason = f"it could not be started: {error}"
        return RunError(outcome.reason)
    finally:
        if crew is not None:
            outcome.warnings += [text for text in crew.warnings if text not in outcome.warnings]
            outcome.is_capped, outcome.refused_calls = crew.is_capped, crew.num_refused
            crew.end()


def _lead(conductor: Conductor, crew: Crew, watch: WatchRun) -> None:
    """Hear the seats, see who leaves, show how it goes, until the run is over."""
    with StopRequests() as requests:
        _warm_up()
        while not conductor.is_over:
            conductor.attend(_TICK_S)
            while (
                requests.heard()
            ):  # first: who leaves while a run is stopped is not its end's cause
                conductor.interrupt()
            for departure in crew.departures():
                conductor.left(departure)
            conductor.note_nodes(crew.links, crew.warnings)
            if crew.is_seated:
                conductor.look_for_stuck(crew.dump_stack)
            watch(conductor.view())


def _warm_up() -> None:
    """Import what sealing needs while the seats are still starting."""
    if address_space.is_tight():  # another process has polars then
        return
    import polars  # noqa: F401
    from tensorboard.summary.writer import event_file_writer  # noqa: F401


def _failure(run_dir: RunDir, outcome: Outcome, failed_seat: str | None) -> RunError | None:
    if outcome.status == "finished":
        return None
    reason = outcome.reason or ""
    if outcome.status == "interrupted":
        return Interrupted(reason)
    if failed_seat is None:
        return SeatFailed("the run", reason, "")
    log_tail = run_dir.log_tail(failed_seat)
    return SeatFailed(failed_seat, reason.removeprefix(f"{failed_seat}: "), log_tail)


def _seal(run_dir: RunDir, facts: Facts, outcome: Outcome) -> Result:
    try:
        return seal(run_dir, facts, outcome)
    except OSError as error:
        why = f" (it ended as {outcome.status}: {outcome.reason})" if outcome.reason else ""
        raise StoreError(f"{run_dir.path} cannot be sealed: {error}{why}") from error


def _short(name: str) -> str:
    """Name a user's own part by its class, or a script by its file, in a folder's name."""
    return Path(name).stem if name.endswith(".py") else name.rpartition(":")[2]


def refuse_in_a_seat(what: str) -> None:
    """A seat imports the script its workload is in; unguarded, that script would run again."""
    if SEAT_VARIABLE in os.environ:
        raise NotHere(
            f"{what} was called while a seat imported your script; put the call under "
            'if __name__ == "__main__":'
        )


def _check_sources(spec: RunSpec) -> None:
    """Another process can only import what is in a file."""
    if spec.cluster.shares_process:
        return
    reason = "no other process can import it: define it in a file, or use the inline cluster"
    problems = [
        Problem(key, type(part).__name__, reason)
        for key, part in (("workload", spec.workload), ("strategy", spec.strategy))
        if "<" in part.name  # as in <interactive> or function.<locals>
    ]
    if problems:
        raise SpecError(problems)
