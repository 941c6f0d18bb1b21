"""How a run stands while it goes on: what is done, how fast, and how long it may still take."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, final

from paceline.comm.roster import Seat
from paceline.comm.words import Phase
from paceline.outcome.device_usage import last_busy_percent
from paceline.outcome.rows import NodeSample, StepsRow
from paceline.spec import RunSpec
from paceline.workloads.order import Order


@final
@dataclass(frozen=True, kw_only=True)
class RunView:
    """What is known of a run while it goes on."""

    phase: Phase
    time_s: float
    """Of the training clock: virtual seconds under dilation, as all rates are."""
    fraction: float | None
    """How much of the run is done, where that can be told."""
    left_s: float | None
    """Real seconds, whatever the training clock counts: this is how long somebody has to wait."""
    global_steps: int | None
    worker_steps: int
    samples: int
    steps_per_s: float | None
    """Global steps; a run without them: steps of all workers together."""
    loss: float | None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the last evaluation gave."""
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The last sample of each node."""
    dilation: float = 1.0
    """How many real seconds one of the training clock takes."""
    note: str = ""
    """What is being prepared before anything starts, or waited for while it starts."""
    printed: str = ""
    """What a script's first worker printed since the last view."""
    alerts: tuple[str, ...] = ()
    """What somebody who watches should know at once, all of it so far."""
    num_faults: int = 0
    """How many faults have struck so far, of those that were asked for."""

    @staticmethod
    def preparing(note: str, done: int, total: int) -> RunView:
        """Make the view of a run whose data is still being made ready."""
        return RunView._before("preparing", note, done / total if total else None)

    @staticmethod
    def starting(note: str) -> RunView:
        """Make the view of a run whose seats are still being started."""
        return RunView._before("starting", note)

    @staticmethod
    def _before(phase: Phase, note: str, fraction: float | None = None) -> RunView:
        return RunView(
            phase=phase,
            time_s=0.0,
            fraction=fraction,
            left_s=None,
            global_steps=None,
            worker_steps=0,
            samples=0,
            steps_per_s=None,
            loss=None,
            note=note,
        )


_LINK: Final = ("net_sent_bytes", "net_received_bytes")
EXCHANGED: Final = ("sent_bytes", "received_bytes")
"""What a worker's strategy counts, links or not."""


def with_rates(
    before: Mapping[str, Any] | None, row: dict[str, Any], counters: Sequence[str] = _LINK
) -> dict[str, Any]:
    """Add to a node's sample how fast its link was, where there is one, since the one before."""
    elapsed_s = 0.0 if before is None else row["time_s"] - before["time_s"]
    if before is None or elapsed_s <= 0:
        return row
    known = [key for key in counters if row.get(key) is not None and before.get(key) is not None]
    return {**row, **{f"{key}_per_s": (row[key] - before[key]) / elapsed_s for key in known}}


def exchanged_rates(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Add up how fast the workers of a node sent and received, as their strategy counts it."""
    keys = [f"{counter}_per_s" for counter in EXCHANGED]
    told = [row for row in rows if all(key in row for key in keys)]
    return {key: sum(row[key] for row in told) for key in keys} if told else {}


@final
class Newest:
    """The newest row of each worker, and the newest sample of each node."""

    def __init__(self, seats: Mapping[str, Seat], *, batch: int, is_replayed: bool) -> None:
        self._seats = seats
        self._batch = batch
        self._is_replayed = is_replayed
        self._rows: dict[str, StepsRow] = {}
        self._with_rates: dict[str, dict[str, Any]] = {}
        """The same as tables to show, with how fast each worker sends and receives."""
        self._samples: dict[str, dict[str, Any]] = {}
        self._before: dict[str, int] = {}
        """Of workers that came later: with which of their batches they began."""
        self._done: dict[str, int] = {}
        """Up to which of its batches each worker is, whichever incarnation took them."""
        self._num_missed = 0
        self._steps: dict[str, int] = {}
        """How many steps each has said that it made, since it was started last."""
        self._resumed: dict[str, int] = {}
        """How many of those were made before, in the run that this one goes on from."""

    def joined(self, name: str, num_steps: int) -> None:
        """A worker begins after so many steps of its own."""
        self._resumed[name] = num_steps
        self._steps[name] = 0

    def parted(self, name: str, num_pushes: int) -> None:
        """A worker is gone; so many of its pushes count since it was started last.

        It may have made a few after its last row, and taken several batches for each.
        """
        steps, before = self._steps.get(name, 0), self._before.get(name, 0)
        num_taken = self.num_taken(name)
        per_step = max(1, (num_taken - before) // steps) if steps else 1
        num_more = max(0, num_pushes + self._resumed.get(name, 0) - steps)
        self._done[name] = num_taken + num_more * per_step
        self._steps[name] = steps + num_more

    def num_taken(self, name: str) -> int:
        """Up to which of its batches a worker is, as far as is known."""
        return self._done.get(name, 0)

    def take_row(self, name: str, row: StepsRow) -> None:
        """Take a worker's row."""
        self._rows[name] = row
        self._steps[name] = row.worker_steps
        self._done[name] = self._before.get(name, 0) + row.samples // self._batch
        self._with_rates[name] = with_rates(self._with_rates.get(name), asdict(row), EXCHANGED)

    def begins(self, name: str, num_before: int) -> None:
        """A worker begins after so many of its batches, which another group of workers took."""
        if num_before:
            self._before[name] = self._done[name] = num_before

    def entered(self, name: str, num_before: int) -> None:
        """A worker begins with its batch of this number."""
        self._num_missed += max(0, num_before - self._done.get(name, 0))
        self._before[name] = self._done[name] = num_before

    def take_sample(self, name: str, sample: NodeSample) -> None:
        """Take a monitor's sample."""
        node = self._seats[name].node
        self._samples[node] = with_rates(self._samples.get(node), asdict(sample))

    @property
    def global_steps(self) -> int:
        """How many updates were made, as far as workers have said."""
        return max(
            (each.global_steps or each.worker_steps for each in self._rows.values()), default=0
        )

    def begins_at(self, name: str, others: Collection[str], *, in_step: bool) -> int:
        """With which of its batches a worker begins that comes now, as far as workers have said.

        Where its predecessor was; in step with others it is as far as the slowest of them, if that
        is further.
        """
        own, slowest = self._done.get(name), self._slowest(others)
        if own is None:
            return slowest
        return max(own, slowest) if in_step else own

    def _slowest(self, workers: Collection[str]) -> int:
        return min((done for name, done in self._done.items() if name in workers), default=0)

    def rows_lost(self, workers: Collection[str], settled: Collection[str] = ()) -> int:
        """Rows of workers that were away, until they came back or the slowest of these `workers`
        that are left came to its end. Those of `settled` ones are taken over by others.
        """
        slowest = self._slowest(workers)
        gone = [name for name in self._workers if name not in workers and name not in settled]
        away = [self._done.get(name, 0) for name in gone]
        num_missed = self._num_missed + sum(max(0, slowest - each) for each in away)
        return num_missed * self._batch

    @property
    def _workers(self) -> list[str]:
        return [name for name, seat in self._seats.items() if seat.role == "worker"]

    def known(self) -> dict[str, Any]:
        """Sum them up, as fields of a view."""
        rows = self._rows.values()
        shared = [each.global_steps for each in rows if each.global_steps is not None]
        losses = [each.loss_mean for each in rows if each.loss_mean is not None]
        return {
            "global_steps": max(shared, default=None),
            "worker_steps": sum(each.worker_steps for each in rows),
            "samples": sum(each.samples for each in rows),
            "loss": sum(losses) / len(losses) if losses else None,
            "nodes": self._nodes(),
        }

    def _nodes(self) -> dict[str, dict[str, Any]]:
        """Give the last sample of each node, with what its workers say of their exchanges.

        Of a replayed one it also has how busy its devices were.
        """
        made = {}
        for node, usage in self._samples.items():
            rows = [row for name, row in self._with_rates.items() if self._seats[name].node == node]
            made[node] = {**usage, **exchanged_rates(rows)}
            if self._is_replayed:
                made[node]["device_busy_percent"] = last_busy_percent(rows)
        return made


@final
class Pace:
    """Rates and the time left, from the last few seconds."""

    def __init__(self, spec: RunSpec, order: Order) -> None:
        self._spec = spec
        self._order = order
        self._seen: deque[tuple[float, int]] = deque(maxlen=30)

    def view(self, *, time_s: float, worker_steps: int, **known: Any) -> RunView:
        fraction = self._fraction(time_s, worker_steps, known["global_steps"])
        shared = known["global_steps"]
        steps = worker_steps if shared is None else shared
        if known["phase"] == "training":
            self._seen.append((time_s, steps))
        dilation = self._spec.dilation
        left_s = dilation * time_s * (1 - fraction) / fraction if fraction else None
        return RunView(
            time_s=time_s,
            worker_steps=worker_steps,
            fraction=fraction,
            left_s=left_s,
            dilation=dilation,
            steps_per_s=self._rate(),
            **known,
        )

    def _rate(self) -> float | None:
        if len(self._seen) < 2:
            return None
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else None

    def _fraction(self, time_s: float, worker_steps: int, global_steps: int | None) -> float | None:
        spec, order = self._spec, self._order
        rows = worker_steps * order.batch
        if spec.steps:
            done = (global_steps or 0) / spec.steps
        elif spec.seconds:
            done = time_s / spec.seconds
        elif spec.worker_steps:
            done = worker_steps / (spec.worker_steps * spec.num_workers)
        elif spec.samples:
            done = rows / spec.samples
        elif spec.epochs is None:
            return None  # a script ends where its own code says so
        else:
            per_epoch = order.steps_per_epoch * spec.num_workers
            done = worker_steps / (spec.epochs * per_epoch)
        return min(1.0, done)
