"""When a worker has done its part, in whatever a spec's length is given."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Final, final

from paceline.spec import RunSpec
from paceline.workloads.order import Order

NEVER: Final = sys.maxsize


def last_batch(spec: RunSpec, order: Order) -> int | None:
    """Up to which of its batches each worker trains, where a run ends by its rows."""
    if spec.samples is None and spec.epochs is None:
        return None
    limits = Limits.of(spec, order)
    return limits.worker_steps if limits.counts_batches else None


@final
@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a worker has done its part."""

    worker_steps: int = NEVER
    global_steps: int = NEVER
    seconds: float = math.inf
    counts_batches: bool = False
    """Whether `worker_steps` counts batches: those of rows, of which a step may take several."""

    @staticmethod
    def of(spec: RunSpec, order: Order) -> Limits:
        """Translate whatever the spec's length is given in."""
        if spec.steps is not None:
            return Limits(global_steps=spec.steps)
        if spec.seconds is not None:
            return Limits(seconds=spec.seconds)
        if spec.worker_steps is not None:
            return Limits(worker_steps=spec.worker_steps)
        if spec.samples is not None:
            batches = math.ceil(spec.samples / (order.batch * order.num_workers))
        else:
            assert spec.epochs is not None
            batches = spec.epochs * order.steps_per_epoch
        return Limits(worker_steps=batches, counts_batches=True)
