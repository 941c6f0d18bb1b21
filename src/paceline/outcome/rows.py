"""What is told while a run or a command goes on: the rows that are also written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from paceline.reading.schema import AnyFloat


@final
@dataclass(frozen=True, kw_only=True)
class StepsRow:
    """A worker's steps since its row before; `worker_steps` and `samples` count from the start."""

    time_s: float
    worker_steps: int
    samples: int
    global_steps: int | None
    count: int
    load_s: float
    compute_s: float
    exchange_s: float
    sent_bytes: int | None
    received_bytes: int | None
    loss_mean: AnyFloat | None
    loss_min: AnyFloat | None
    loss_max: AnyFloat | None
    loss_variance: AnyFloat | None


@final
@dataclass(frozen=True, kw_only=True)
class SeatSample:
    """What one seat used, within its node's sample."""

    seat: str
    cpu_percent: float | None
    disk_read_bytes: int | None
    disk_written_bytes: int | None


@final
@dataclass(frozen=True, kw_only=True)
class NodeSample:
    """What a node used since its monitor's sample before, and what it holds."""

    time_s: float
    phase: str
    cpu_percent: float | None
    memory_bytes: int | None
    disk_read_bytes: int | None
    disk_written_bytes: int | None
    net_sent_bytes: int | None
    net_received_bytes: int | None
    packets_sent: int | None
    packets_received: int | None
    seats: tuple[SeatSample, ...]


@final
@dataclass(frozen=True, kw_only=True)
class CommandSample:
    """What a command and its descendants used since the sample before, and what they hold."""

    time_s: float
    cpu_percent: float
    memory_bytes: int
    disk_read_bytes: int | None
    disk_written_bytes: int | None
    machine_sent_bytes: int
    machine_received_bytes: int
    machine_packets_sent: int
    machine_packets_received: int
    processes: int
