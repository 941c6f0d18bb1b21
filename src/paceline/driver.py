"""The driver: create the run, seat the processes, start them together, wait, seal.

Read this file first, then `worker.py`: together they are the story of a run.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from paceline import address_space
from paceline.clusters.base import SEAT_VARIABLE, Crew, Job
from paceline.clusters.zygote import Zygote
from paceline.compute.rates import own_file
from paceline.conductor import Conductor
from paceline.errors import (
    Interrupted,
    NotHere,
    Problem,
    RunError,
    SeatFailed,
    SpecError,
    StoreError,
)
from paceline.facts import Facts
from paceline.measure.environment import capture, steal_seconds, usable_cores
from paceline.metrics import better_of, joined
from paceline.outcome import Outcome
from paceline.progress import View
from paceline.results import Result
from paceline.runs import RunDir, create_run
from paceline.sealing import seal
from paceline.spec import RunSpec
from paceline.stopping import StopRequests
from paceline.threads import Threads, decide, must_be_measured
from paceline.workloads.order import Order

Watch = Callable[[View], None]

DEFAULT_OUT: Final = Path("runs")
_TICK_S: Final = 0.1


def run(
    spec: RunSpec,
    *,
    out: Path | str = DEFAULT_OUT,
    watch: Watch | None = None,
    zygote: Zygote | None = None,
) -> Result:
    """Carry out a run and give its result.

    Raises `SpecError`, `DataError` or `StoreError` before anything is started, and `SeatFailed`
    or `Interrupted`, with the sealed run's result, after. `watch` is called about ten times a
    second with what is known so far. Runs that are given the same `zygote` import torch once.
    """
    began_s, stolen_s = time.monotonic(), steal_seconds()
    _refuse_in_a_seat()
    address_space.check()
    spec = spec.checked()
    if zygote is None and must_be_measured([spec]):
        with Zygote() as own:  # for the trial and the run
            return run(spec, out=out, watch=watch, zygote=own)
    _check_sources(spec)
    watch = watch or (lambda _: None)
    if not spec.is_replayed:
        _prepare(spec, watch)
    order = spec.check_data()
    spec.cluster.verify()
    spec, threads = _with_threads(spec, watch, zygote)
    measured = threads.why if threads.is_measured else None
    facts = dataclasses.replace(_facts(spec, order), threads_why=measured)
    run_dir = create_run(
        Path(out),
        f"{_short(spec.workload.name)}-{_short(spec.strategy.name)}",
        spec=spec.toml(),
        facts=facts.table(),
        environment=capture(),
    )
    outcome = Outcome()
    try:
        failure = _carry_out(
            spec=spec,
            order=order,
            run_dir=run_dir,
            outcome=outcome,
            watch=watch,
            began_s=began_s,
            zygote=zygote,
        )
    except MemoryError:
        outcome.status, outcome.reason = "failed", "the driver ran out of memory"
        failure = RunError(outcome.reason)
    finally:
        _note_limit(outcome)
        if stolen_s is not None:
            outcome.steal_s = (steal_seconds() or stolen_s) - stolen_s
        if not outcome.is_capped:
            cores = _num_cores(spec, facts.seats, are_capped=False)
            facts = dataclasses.replace(facts, num_cores=cores)
        result = _seal(run_dir, facts, outcome)
        run_dir.let_go()
    if failure is not None:
        failure.result = result
        raise failure
    return result


def _with_threads(spec: RunSpec, watch: Watch, zygote: Zygote | None) -> tuple[RunSpec, Threads]:
    """Decide how many threads a worker has; what was measured is kept, so that the run repeats."""
    if must_be_measured([spec]):
        watch(View.preparing("measuring how many threads are best", 0, 1))
    threads = decide([spec], zygote)
    if threads.is_measured:
        spec = dataclasses.replace(spec, threads=threads.number)
    return spec, threads


def _prepare(spec: RunSpec, watch: Watch) -> None:
    """Have the workload make what it makes once, and show how far it is, a few times a second."""
    told_s = 0.0

    def progress(message: str, done: int, total: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= _TICK_S:
            told_s = time.monotonic()
            watch(View.preparing(message, done, total))

    spec.workload.prepare(progress)


def _carry_out(
    *,
    spec: RunSpec,
    order: Order,
    run_dir: RunDir,
    outcome: Outcome,
    watch: Watch,
    began_s: float,
    zygote: Zygote | None,
) -> RunError | None:
    """Start the seats and lead them to the end; returns what went wrong, if anything did."""
    seats = spec.seats()
    if not spec.record.monitor:
        seats = [seat for seat in seats if seat.role != "monitor"]
    job = Job(
        run_dir=run_dir.path.resolve(),
        run_key=secrets.token_bytes(16),
        entry="paceline.worker:main",
        seats=seats,
        threads=spec.threads_each,
        dilation=spec.dilation,
        imports=spec.strategy.imports,
        zygote=zygote,
        spec=spec,
    )
    outcome.status, outcome.reason = "failed", "it did not finish"
    if spec.cluster.encrypts and spec.strategy.connects_itself:
        name = spec.strategy.name
        outcome.warnings.append(f"{name} opens its own connections, which are not encrypted")
        run_dir.append_warning(outcome.warnings[-1])
    crew: Crew | None = None
    try:
        _keep_source(run_dir, spec)
        crew = spec.cluster.start(job)
        conductor = Conductor(
            spec=spec,
            order=order,
            lines=crew.lines,
            seats=job.seats,
            run_dir=run_dir,
            outcome=outcome,
            began_s=began_s,
        )
        _lead(conductor, crew, watch)
        _note_stragglers(conductor, outcome)
        return _failure(run_dir, outcome, conductor.failed_seat)
    except KeyboardInterrupt:  # before the seats are led, or after: then it is answered gently
        outcome.status, outcome.reason = "interrupted", "stopped by the user"
        return Interrupted(outcome.reason)
    except OSError as error:
        outcome.reason = f"it could not be started: {error}"
        return RunError(outcome.reason)
    finally:
        if crew is not None:
            outcome.warnings += [text for text in crew.warnings if text not in outcome.warnings]
            outcome.is_capped = crew.is_capped
            crew.end()


def _lead(conductor: Conductor, crew: Crew, watch: Watch) -> None:
    """Hear the seats, see who leaves, show how it goes, until the run is over."""
    with StopRequests() as requests:
        _warm_up()
        while not conductor.is_over:
            conductor.attend(_TICK_S)
            for departure in crew.departures():
                conductor.left(departure)
            conductor.note_nodes(crew.links, crew.warnings)
            if crew.is_seated:
                conductor.look_for_stuck(crew.dump_stack)
            while requests.heard():
                conductor.interrupt()
            watch(conductor.view())


def _note_stragglers(conductor: Conductor, outcome: Outcome) -> None:
    if outcome.status == "finished" and conductor.stragglers:
        names = ", ".join(conductor.stragglers)
        outcome.warnings.append(f"did not exit after the run and was killed: {names}")


def _note_limit(outcome: Outcome) -> None:
    """Say what a process could have, where that may be why a run failed."""
    limit = address_space.remark()
    if outcome.status == "failed" and limit is not None:
        outcome.warnings.append(limit)


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
    seat = failed_seat or "the run"
    return SeatFailed(seat, reason.removeprefix(f"{seat}: "), run_dir.log_tail(seat))


def _seal(run_dir: RunDir, facts: Facts, outcome: Outcome) -> Result:
    try:
        return seal(run_dir, facts, outcome)
    except OSError as error:
        why = f" (it ended as {outcome.status}: {outcome.reason})" if outcome.reason else ""
        raise StoreError(f"{run_dir.path} cannot be sealed: {error}{why}") from error


def _facts(spec: RunSpec, order: Order) -> Facts:
    seats: dict[str, list[str]] = {}
    for seat in spec.seats():
        seats.setdefault(seat.node, [])
        if seat.role != "monitor":
            seats[seat.node].append(seat.name)
    return Facts(
        workload=spec.workload.name,
        strategy=spec.strategy.name,
        cluster=spec.cluster.name,
        meaning=spec.strategy.meaning(spec.num_workers),
        num_workers=spec.num_workers,
        batch_size=order.batch,
        seed=spec.seed,
        target=joined(spec.targets),
        better=better_of(spec.workload.better),
        seats=seats,
        num_cores=_num_cores(spec, seats),
        tensorboard=spec.record.tensorboard,
        flows=_flows(spec),
        compute="replayed" if spec.is_replayed else "real",
        device=spec.device,
        dilation=spec.dilation,
        notes=_notes(spec, order),
        threads=spec.threads_each,
    )


def _num_cores(spec: RunSpec, nodes: Iterable[str], *, are_capped: bool = True) -> dict[str, float]:
    """How many cores each node may use: no more than there are."""
    there = usable_cores() or 1.0
    asked = {node: spec.cluster.cores_of(node) if are_capped else None for node in nodes}
    return {node: min(cores or there, there) for node, cores in asked.items()}


def _notes(spec: RunSpec, order: Order) -> list[str]:
    """Say how far the figures of a replayed device are from what was measured of it."""
    if not spec.is_replayed:
        return []
    rates = spec.rates()
    notes = [rates.note] if rates.note else []
    if rates.batch != order.batch:
        notes.append(
            f"{spec.device} was measured at a batch of {rates.batch}: "
            f"its times are scaled to {order.batch}"
        )
    return notes


def _flows(spec: RunSpec) -> list[tuple[str, str, float, str]] | None:
    """What the strategy's theory says travels in a step."""
    nodes = [seat.node for seat in spec.seats() if seat.role == "worker"]
    flows = spec.strategy.flows(nodes)
    return None if flows is None else [*flows]


def _short(name: str) -> str:
    """Name a user's own part by its class, in a folder's name."""
    return name.rpartition(":")[2]


def _keep_source(run_dir: RunDir, spec: RunSpec) -> None:
    """Keep the user's own files with the run: they may change tomorrow."""
    parts = (spec.workload, spec.strategy, spec.cluster)
    files = {Path(part.name.rpartition(":")[0]) for part in parts}
    for file in {each for each in files if each.suffix == ".py"} | {own_file(spec.device)}:
        if file is not None and file.is_file():
            run_dir.source.mkdir(exist_ok=True)
            target = run_dir.source / file.name
            if target.exists():  # another file of the same name
                target = run_dir.source / f"{file.parent.name}-{file.name}"
            shutil.copy2(file, target)


def _refuse_in_a_seat() -> None:
    """A seat imports the script its workload is in; unguarded, that script would run again."""
    if SEAT_VARIABLE in os.environ:
        raise NotHere(
            "paceline.run was called while a seat imported your script; put the call under "
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
