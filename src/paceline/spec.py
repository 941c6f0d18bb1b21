"""RunSpec: everything a run is, checked before anything starts, lossless as TOML."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, final

from annotated_types import Ge, Gt, Le
from pydantic import AllowInfNan, BeforeValidator

from paceline import faults, parts
from paceline.clusters.base import Cluster
from paceline.clusters.local import Local
from paceline.comm.roster import Seat
from paceline.compute import rates
from paceline.compute.devices import CHOICES, is_placed
from paceline.compute.rates import Rates
from paceline.description import Count, Description, Positive, build, parse_every
from paceline.errors import DataError, Problem, SpecError, WorkloadError, users_traceback
from paceline.faults import Fault, OnFailure, parse_faults
from paceline.parts import PARTS, Every, Record, as_toml, build_part, plain, unnamed
from paceline.reading import untrusted
from paceline.settings import LENGTHS
from paceline.strategies.base import Strategy
from paceline.strategies.local import Single
from paceline.system.cores import usable_cores
from paceline.training.answers import signature_problems
from paceline.training.finite import MOST_REFUSED
from paceline.training.metrics import Better, Target, better_of, parse_targets
from paceline.training.optim import Optimizer
from paceline.workloads.base import Workload
from paceline.workloads.order import Order


@final
class RunSpec(Description):
    """One run: what is trained, how, where, for how long, and what is kept of it."""

    workload: Workload
    strategy: Strategy = Single()
    cluster: Cluster = Local()
    optimizer: Optimizer | None = None
    """The workload's own, unless given."""
    record: Record = Record()

    num_workers: Count = 1
    batch: Count | Literal["all"] | None = None
    """Rows per worker per step; `all` is its whole share of the data."""
    steps: Count | None = None
    worker_steps: Count | None = None
    samples: Count | None = None
    epochs: Count | None = None
    seconds: Positive | None = None
    target_accuracy: Annotated[float, Gt(0), Le(1)] | None = None
    target_loss: Positive | None = None
    target: Annotated[tuple[Target, ...], BeforeValidator(parse_targets)] = ()
    """Levels of any metric, such as `mae<=0.2`: a run ends when all of its targets are reached."""
    eval_every: Count | None = None
    eval_samples: Count | None = None
    seed: Annotated[int, Ge(0), Le(2**31 - 1)] = 0
    dtype: Literal["float32", "float64"] = "float32"
    most_refused: Count = MOST_REFUSED
    """After how many steps in a row whose gradients are not finite the run fails."""
    threads: Count | None = None
    """Compute threads per worker; what the cores allow, unless given."""
    device: str = rates.REAL
    """What computes: the processor, `replay:…`, which only takes the time of another device, or
    `cuda`, which is experimental: it was never run on a GPU."""
    dilation: Annotated[float, Ge(1), AllowInfNan(allow_inf_nan=False)] = 1.0
    """How many times slower a replayed run goes; what is recorded are virtual seconds."""
    checkpoint_every: Annotated[int | str, BeforeValidator(parse_every)] | None = None
    """How often to write what a run can be resumed from: a number of steps, or seconds as `10s`."""
    checkpoint_keep: Count = 2
    """How many checkpoints are kept: the newest ones."""
    stuck_s: Positive = 60.0
    """How long a worker may be silent before the run reports where in its code it is."""
    when_stuck: Literal["wait", "stop"] = "wait"
    """Whether the run then goes on waiting for it, or fails."""
    fault: Annotated[tuple[Fault, ...], BeforeValidator(parse_faults)] = ()
    """What goes wrong on purpose, such as `kill:worker1@step=200`."""
    on_failure: OnFailure | None = None
    """Unless given, `go-on` where faults are injected and the strategy can, else `abort`."""
    max_restarts: Annotated[int, Ge(0)] = 3
    """How many times `restart` starts the whole run again, and `replace` each worker or server."""
    min_workers: Count = 1
    """With fewer workers than this a run that goes on makes a checkpoint and ends."""
    detect_s: Annotated[float, Ge(1), AllowInfNan(allow_inf_nan=False)] = 5.0
    """After how many seconds a seat that stays suspended is given up."""

    @property
    def name(self) -> str:
        return "run"

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Build and check a spec; raises `SpecError` with all that is wrong, field by field."""
        values = unnamed(table)
        problems: list[Problem] = []
        for part in [*PARTS, "record"]:
            try:
                if part in values:
                    values[part] = build_part(part, values)
            except SpecError as error:
                problems += error.problems
                del values[part]
        values = {**parts.meant(values), **values}
        try:
            # How the parts go together can only be told when each of them is right.
            spec = build(cls, values, "", together=not problems)
        except SpecError as error:
            # A workload that was given but is wrong was named already.
            problems += [
                each for each in error.problems if each.field in values or each.field not in table
            ]
        if problems:
            raise SpecError(problems)
        return spec.completed()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a TOML file."""
        return cls.from_table(read_toml(path))

    def toml(self) -> str:
        """Write every field, defaults too."""
        import tomli_w

        return tomli_w.dumps(plain(self))

    def checked(self) -> Self:
        """Check a spec that was made in Python as one read from a file is checked."""
        return self.from_table(
            {key: value for key, value in self.values().items() if value is not None}
        )

    def completed(self) -> Self:
        """Fill in what the workload decides and what was left open."""
        strategy = self.strategy.for_workers(self.num_workers)
        if self.workload.is_script:  # it has an optimizer, a batch and an end of its own
            return dataclasses.replace(self, strategy=strategy)
        has_length = any(getattr(self, each) for each in LENGTHS)
        return dataclasses.replace(
            self,
            strategy=strategy,
            workload=self._as_measured(),
            optimizer=self.optimizer or self.workload.usual_optimizer(),
            batch=self.batch or self.workload.default_batch,
            epochs=self.epochs if has_length else 1,
        )

    @property
    def is_replayed(self) -> bool:
        """Whether computing only takes its time: then there is no loss, and nothing to evaluate."""
        return rates.is_replayed(self.device)

    def rates(self) -> Rates:
        """Say how long the replayed device takes for the workload."""
        return rates.device_rates(self.device).of(self.workload.name, self.device)

    def _as_measured(self) -> Workload:
        """Give the workload the shape that the replayed device was measured with."""
        if not self.is_replayed or not self.rates().fields:
            return self.workload
        table = self.workload.values() | self.rates().fields
        made: Workload = build(type(self.workload), table, "workload")
        return made

    @property
    def threads_each(self) -> int:
        """How many threads a worker has where all of them share this machine's cores."""
        return self.threads_on(usable_cores() or 1.0, self.num_workers)

    def threads_on(self, cores: float, num_workers: int) -> int:
        """How many threads a worker has: its share of the cores, if nothing else was said.

        A small model's arithmetic is not worth sharing.
        """
        if self.threads is not None:
            return self.threads
        fair = max(1, int(cores // num_workers))
        return min(fair, self.workload.most_threads or fair)

    @property
    def targets(self) -> tuple[Target, ...]:
        """All that must be reached for a run to end early, whichever field says it."""
        named: tuple[tuple[str, Better, float | None], ...] = (
            ("accuracy", "higher", self.target_accuracy),
            ("loss", "lower", self.target_loss),
        )
        short = (Target(*each[:2], each[2]) for each in named if each[2] is not None)
        return (*short, *self.target)

    def evaluate_every(self, order: Order) -> int | None:
        """Every how many steps to evaluate; a target is looked for once an epoch at least."""
        return self.eval_every or (order.steps_per_epoch if self.targets else None)

    @property
    def keep_every(self) -> Every | None:
        """How often a checkpoint is due."""
        if isinstance(self.checkpoint_every, str):
            return Every(seconds=float(self.checkpoint_every.removesuffix("s")))
        return None if self.checkpoint_every is None else Every(steps=self.checkpoint_every)

    def problems(self) -> Iterator[Problem]:
        given = [each for each in LENGTHS if getattr(self, each) is not None]
        for extra in given[1:]:
            reason = f"{given[0]} is given too: give only one length"
            yield Problem(extra, getattr(self, extra), reason, LENGTHS)
        if self.steps and not self.strategy.counts_steps:
            reason = f"{self.strategy.name} shares no parameters, so it has no global steps"
            yield Problem("steps", self.steps, reason, LENGTHS[1:])
        yield from self.strategy.group_problems(self.num_workers)
        yield from self.cluster.group_problems(**self._group)
        yield from self.cluster.dilation_problems(self.dilation)
        if self.strategy.needs_processes and self.cluster.shares_process and self.num_workers > 1:
            reason = f"{self.strategy.name} needs a process for each worker"
            yield Problem("cluster", self.cluster.name, reason, ("local",))
        if self.strategy.connects_itself:
            num_nodes = len({seat.node for seat in self.seats()})
            yield from self.cluster.plain_problems(self.strategy.name, num_nodes)
        yield from signature_problems(self.workload)
        yield from parts.script_fit(self)
        yield from faults.failure_problems(self)
        yield from self._target_problems()
        yield from self._replay_problems() if self.is_replayed else self._real_problems()

    @property
    def when_lost(self) -> OnFailure:
        """What the loss of a worker means in this run."""
        default: OnFailure = "go-on" if self.fault and self.survives_workers else "abort"
        return self.on_failure or default

    @property
    def goes_on(self) -> bool:
        """Whether the others may go on without a seat, perhaps until it is back."""
        return self.when_lost in ("go-on", "replace")

    @property
    def survives_workers(self) -> bool:
        """Whether others can go on without a worker."""
        with_script = self.strategy.scripts_survive or not self.workload.is_script
        return self.strategy.survives_workers and with_script

    @property
    def takes_workers_in(self) -> bool:
        """Whether a worker can come while others train; a script of the user's own cannot."""
        return self.survives_workers and not self.workload.is_script

    @property
    def may_start_again(self) -> bool:
        """Whether a seat may be started while others train: it inherits no memory of theirs."""
        if not self.takes_workers_in or self.when_lost == "restart":
            return False
        return self.when_lost == "replace" or any(each.may_bring_back for each in self.fault)

    def _target_problems(self) -> Iterator[Problem]:
        """Say which targets can never be meant; which metrics there are only training tells."""
        better = better_of(self.workload.better)
        for target in self.target:
            wanted = better.get(target.metric, target.better)
            if wanted != target.better:
                choice = str(dataclasses.replace(target, better=wanted))
                reason = f"{target.metric} is better when {wanted}"
                yield Problem("target", str(target), reason, (choice,))
            elif target.metric == "accuracy" and not 0 < target.value <= 1:
                yield Problem("target", str(target), "accuracy is a fraction, from 0 to 1")

    def _real_problems(self) -> Iterator[Problem]:
        if is_placed(self.device):
            yield from self._placed_problems()
        elif self.device != rates.REAL:
            choices = (*rates.choices(), *CHOICES)
            yield Problem("device", self.device, "no such device", choices)
        if self.dilation != 1:
            reason = f"real compute cannot be slowed: give a device such as {rates.choices()[1]}"
            yield Problem("dilation", self.dilation, reason)

    def _placed_problems(self) -> Iterator[Problem]:
        """Say what is not there on a device with memory of its own."""
        if self.strategy.needs_autograd:
            reason = "this strategy is not there on another device than the CPU"
            yield Problem("strategy", self.strategy.name, reason, ("ring",))
        if self.workload.is_script:
            yield Problem("device", self.device, "a script moves its model by itself")

    def _replay_problems(self) -> Iterator[Problem]:
        """Say what does not go together with compute that only takes its time."""
        for each in ("target_accuracy", "target_loss", "target", "eval_every", "eval_samples"):
            if getattr(self, each) not in {None, ()}:
                reason = "replayed compute trains nothing: it has no accuracy and no loss"
                yield Problem(each, as_toml(getattr(self, each)), reason)
        if self.checkpoint_every is not None:
            reason = "replayed compute trains nothing: there is nothing to keep"
            yield Problem("checkpoint_every", self.checkpoint_every, reason)
        try:
            measured = self.rates().fields
        except SpecError as error:
            yield from error.problems
            return
        own = self.workload.values()
        for unknown in sorted(measured.keys() - own.keys()):
            reason = f"{self.workload.name} has no such field"
            yield Problem(f"{self.device}: fields.{unknown}", measured[unknown], reason, tuple(own))
        defaults = {each.name: each.default for each in dataclasses.fields(self.workload)}
        for key in measured.keys() & own.keys():
            if own[key] not in (measured[key], defaults[key]):
                reason = f"{self.device} was measured with {measured[key]!r}"
                yield Problem(f"workload.{key}", own[key], reason)

    @property
    def _group(self) -> dict[str, Any]:
        return {
            "num_workers": self.num_workers,
            "num_servers": self.strategy.num_servers,
            "servers_apart": self.strategy.servers_apart,
        }

    def seats(self) -> list[Seat]:
        """Give every seat of the run a node."""
        return self.cluster.seats(**self._group)

    def check_data(self) -> Order:
        """Look at the data: is it there, and are there rows enough? Returns the order of rows."""
        if self.workload.is_script:
            return self.order_of(self.num_workers)
        try:
            if not self.is_replayed:
                self.workload.verify()
            num_rows = self.num_rows()
        except (DataError, WorkloadError):
            raise
        except Exception as error:
            reason = f"its data cannot be read: {type(error).__name__}: {error}"
            where = users_traceback(error)
            raise SpecError(
                [Problem("workload", self.workload.name, reason, traceback=where)]
            ) from error
        self._check_targets()
        return self.order_of(num_rows)

    def _check_targets(self) -> None:
        """A target that is never measured would never be reached."""
        if not self.targets:
            return
        import torch

        from paceline.workloads.metric_names import unknown_metrics

        names = [each.metric for each in self.targets]
        known, unknown = unknown_metrics(self.workload, names, getattr(torch, self.dtype))
        reason = f"{type(self.workload).__name__}'s metrics have no such name"
        problems = [
            Problem("target", str(each), reason, known)
            for each in self.targets
            if each.metric in unknown
        ]
        if problems:
            raise SpecError(problems)

    def num_rows(self) -> int:
        """Count the training rows; replayed compute reads none, and takes its file's word."""
        if not self.is_replayed:
            return self.workload.num_rows()
        told = self.rates().num_rows
        if told is not None:
            return told
        try:
            return self.workload.num_rows()
        except DataError as error:
            reason = f"its file has no num_rows for {self.workload.name}, and there is no data"
            raise SpecError([Problem("device", self.device, reason)]) from error

    def order_of(self, num_rows: int) -> Order:
        """Give the order in which so many rows are taken; there must be enough of them."""
        if num_rows < self.num_workers:
            reason = f"more workers than the {num_rows} rows of {self.workload.name}"
            raise SpecError([Problem("num_workers", self.num_workers, reason)])
        if self.workload.is_script:
            return Order(num_rows=num_rows, num_workers=self.num_workers, batch=1, seed=self.seed)
        batch = num_rows // self.num_workers if self.batch == "all" else self.batch
        assert isinstance(batch, int)
        if batch * self.num_workers > num_rows:
            reason = (
                f"times {self.num_workers} workers is more than the {num_rows} rows "
                f"of {self.workload.name}"
            )
            raise SpecError([Problem("batch", self.batch, reason)])
        return Order(num_rows=num_rows, num_workers=self.num_workers, batch=batch, seed=self.seed)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a spec's TOML file as plain values."""
    try:
        return untrusted.read_toml(path, follow=True)
    except (OSError, ValueError) as error:
        raise SpecError([Problem("spec", str(path), f"cannot be read: {error}")]) from error
