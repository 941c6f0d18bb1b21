"""What seats say of themselves when they have done their part; results are made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, final

from paceline.outcome.buckets import BucketTotals
from paceline.reading import schema
from paceline.reading.schema import AnyFloat


@dataclass(frozen=True, kw_only=True)
class SeatAccount:
    """Base: what any seat counts; None where it was not, or cannot be, counted.

    What fields mean that a result has too is said there.
    """

    cpu_s: float | None = None
    ready_s: float | None = None
    most_ready_s: float | None = None
    process_cpu_s: float | None = None
    """Of all threads, and of children that have been waited for; None where seats share one."""
    memory_peak_bytes: int | None = None
    own_peak_bytes: int | None = None
    """Since training began, without what is shared with other processes."""
    dropped_frames: int | None = None
    rejected_peers: int | None = None
    sent_to: dict[str, int] = field(default_factory=dict)
    """Bytes by receiving seat."""
    other: dict[str, AnyFloat] = field(default_factory=dict)
    """What a strategy or a workload of the user's own counts beside."""


@final
@dataclass(frozen=True, kw_only=True)
class WorkerAccount(SeatAccount):
    """What a worker has done when it has trained."""

    train_s: float
    worker_steps: int
    samples: int
    global_steps: int | None = None
    final_loss: AnyFloat | None = None
    note: str | None = None
    """What the user should know of how its part ended."""
    told_losses: bool = True
    """Whether any loss was known: a script need not say its own."""
    odd_losses: int = 0
    """How many losses were not finite."""
    model_bytes: int | None = None
    parameter_bytes: int | None = None
    """How much there is to exchange in a step; None where that depends on the batch."""
    touched_rows: int | None = None
    row_bytes: int | None = None
    refused: int | None = None
    refused_because: dict[str, int] = field(default_factory=dict)
    skipped_rows: int = 0
    """Bad rows of its own batches."""
    left_out_rows: int = 0
    """Bad rows that all workers left out alike."""
    first_skipped: str | None = None
    """Where the first of them is, and why it is bad."""
    sent_bytes: int | None = None
    received_bytes: int | None = None
    staleness: dict[str, int] = field(default_factory=dict)
    """Number of updates by staleness."""
    held_s: float | None = None
    """How long a server had it wait for slower workers."""
    times_last: int | None = None
    late_s: float | None = None
    wait_s: float | None = None
    apply_s: float | None = None
    hidden_s: float | None = None
    algorithm: str | None = None
    round_trip_s: float | None = None
    buckets: tuple[BucketTotals, ...] = ()
    device_busy_s: float | None = None
    late_steps: int | None = None

    @property
    def progress(self) -> int:
        """Global steps; its own where workers share none."""
        return self.worker_steps if self.global_steps is None else self.global_steps


@final
@dataclass(frozen=True, kw_only=True)
class ServerAccount(SeatAccount):
    """What a server has done when the run is over."""

    updates: int | None = None
    """None where servers of its strategy do not count: then none are in a result."""
    dropped: int = 0
    refused: int = 0
    apply_s: float = 0.0
    queue_s: float | None = None
    busy_s: float | None = None
    last_arrivals: dict[str, int] = field(default_factory=dict)
    """How often each worker was the last to arrive at a synchronous update."""
    late_by_worker_s: dict[str, float] = field(default_factory=dict)
    wait_by_worker_s: dict[str, float] = field(default_factory=dict)
    queue_by_worker_s: dict[str, float] = field(default_factory=dict)


@final
@dataclass(frozen=True, kw_only=True)
class RefusedSteps:
    """What a worker that fails says of its steps that were refused."""

    worker_steps: int
    samples: int
    refused: int
    refused_because: dict[str, int]


A = TypeVar("A", bound=SeatAccount)


def account_of(cls: type[A], counted: Mapping[str, Any]) -> A:
    """Make an account of what was counted; numbers of unknown names become `other`.

    Raises `ValueError` that names the key whose value is of another type.
    """
    known = {each.name for each in fields(cls)} - {"other"}
    try:
        table = json.loads(json.dumps(counted))  # as it travels: a count by number has text as keys
    except TypeError as error:
        raise ValueError(f"it holds more than plain values: {error}") from error
    other = {key: table.pop(key) for key in table.keys() - known}
    return schema.read(cls, {**table, "other": dict(sorted(other.items()))}, strict=True)


@final
@dataclass(frozen=True, kw_only=True)
class RowsHeld:
    """The training rows that a worker reads, as its machine has them."""

    where: str
    """What the user calls the machine."""
    origin: str
    """Where the rows come from."""
    number: int
    checksum: str | None
    """Of a sample; None where rows are drawn anew each time."""

    def __str__(self) -> str:
        told = "" if self.checksum is None else f", checksum {self.checksum}"
        return f"{self.origin or 'its data'} ({self.number:,} rows{told})"
