"""Where a worker's time goes: what each part of a step took, from what was recorded of a run.

The parts of an exchange are told by different seats: a worker knows how long all of it took, the
server or the other ranks how much of that was waiting for the slowest. So each part is taken out of
what is left, in the order wait, apply, queue; the rest is sending and receiving.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from paceline.outcome.results import Result, ServerTotals, WorkerTotals


@final
@dataclass(frozen=True, kw_only=True)
class Parts:
    """Seconds of one worker, or of all together; their sum is its time on the training clock."""

    load_s: float = 0.0
    compute_s: float = 0.0
    wait_s: float = 0.0
    """For slower workers."""
    transfer_s: float = 0.0
    """Sending and receiving; with a server by messages, queueing there too; of a worker that did
    not come to its end, waiting too."""
    queue_s: float = 0.0
    """Waiting for a server that is busy with others, where that can be told."""
    apply_s: float = 0.0
    """Averaging and applying, by the worker or while it waits for a server to."""
    other_s: float = 0.0
    """The loop itself, writing rows."""

    @property
    def total_s(self) -> float:
        return float(sum(getattr(self, each) for each in NAMES))

    @property
    def busy_s(self) -> float:
        """What it does by itself, before it meets anybody."""
        return self.load_s + self.compute_s

    @property
    def served_s(self) -> float:
        """What the exchange takes when nobody is late."""
        return self.transfer_s + self.queue_s + self.apply_s

    def share(self, seconds: float) -> float:
        """Say which part of the whole so many seconds are."""
        return seconds / self.total_s if self.total_s else 0.0


NAMES: Final = tuple(each.name for each in fields(Parts))


def parts_of(worker: WorkerTotals, result: Result) -> Parts | None:
    """Split a worker's time; None where its phases were not recorded."""
    if worker.load_s is None or worker.compute_s is None or worker.exchange_s is None:
        return None
    left = _Left(worker.exchange_s)
    wait_s = left.take(worker.wait_s or 0.0)
    apply_s = left.take(_apply_s(worker, result))
    queue_s = left.take(worker.queue_s or 0.0)
    spans_s = worker.load_s + worker.compute_s + worker.exchange_s
    return Parts(
        load_s=worker.load_s,
        compute_s=worker.compute_s,
        wait_s=wait_s,
        transfer_s=left.seconds,
        queue_s=queue_s,
        apply_s=apply_s,
        other_s=max(0.0, worker.train_s - spans_s),
    )


def all_parts(result: Result) -> dict[str, Parts]:
    """Give the parts of every worker whose phases were recorded, by its name."""
    found = {worker.name: parts_of(worker, result) for worker in result.workers}
    return {name: parts for name, parts in found.items() if parts is not None and parts.total_s}


def run_parts(result: Result) -> Parts:
    """Add up the parts of all workers."""
    parts = all_parts(result).values()
    return Parts(**{name: sum(getattr(each, name) for each in parts) for name in NAMES})


def _apply_s(worker: WorkerTotals, result: Result) -> float:
    if worker.apply_s is not None:
        return worker.apply_s
    if not result.servers:
        return _apply_as_others_s(worker, result)
    # Servers apply their parts at the same time; the slowest decides.
    return max(_apply_a_push_s(each) for each in result.servers) * worker.worker_steps


def _apply_as_others_s(worker: WorkerTotals, result: Result) -> float:
    """Of a worker that did not come to its end: as long a step as those took that did."""
    said = [each for each in result.workers if each.apply_s is not None]
    if not (said or worker.sent_bytes):  # alone: an exchange is nothing but the update
        return worker.exchange_s or 0.0
    num_steps = sum(each.worker_steps for each in said)
    applied_s = sum(each.apply_s or 0.0 for each in said)
    return applied_s / num_steps * worker.worker_steps if num_steps else 0.0


def _apply_a_push_s(server: ServerTotals) -> float:
    return server.apply_s / server.updates if server.updates else 0.0


@final
class _Left:
    """What is left of an exchange after what is known of it was taken out."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def take(self, wanted_s: float) -> float:
        taken_s = max(0.0, min(wanted_s, self.seconds))
        self.seconds -= taken_s
        return taken_s
