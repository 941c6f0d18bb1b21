"""A seat that times a few steps of a workload with one thread, and with all that it may have."""

from __future__ import annotations

import statistics
import sys
import time
import traceback
from typing import Final

import torch
from torch import Tensor

from paceline.clusters.base import Berth
from paceline.comm.node_words import ThreadsTimed
from paceline.compute.real import Real
from paceline.engine.seating import spec_of
from paceline.planning.calibration import made_up
from paceline.spec import RunSpec
from paceline.training.replica import Replica
from paceline.workloads.base import Workload

# Each number of threads has its turn a few times, so that what else goes on meets both.
_ROUNDS: Final = 4
_TURN_S: Final = 0.08
# A step that would take longer is tried with fewer rows: what gains there gains with more, too.
_LONGEST_S: Final = 0.05
_FEW_ROWS: Final = 2
_MOST_ROWS: Final = 4096


def main(berth: Berth) -> int:
    """Time the steps and tell the driver; returns the process's exit code."""
    try:
        one_s, all_s = _times(spec_of(berth.ticket))
        berth.line.send(ThreadsTimed(one_s=one_s, all_s=all_s))
    except Exception:  # noqa: BLE001 - whatever a user's code raises: the run will say so
        traceback.print_exc(file=sys.stderr)
        return 1
    return 0


def _times(spec: RunSpec) -> tuple[float, float]:
    """Seconds of a step with one thread, and with as many as the spec has."""
    assert spec.threads is not None
    torch.manual_seed(spec.seed)
    torch.set_num_threads(1)
    replica = Replica(spec.workload.model(), getattr(torch, spec.dtype))
    if replica.table is not None:
        raise ValueError("a batch touches few rows of its table: more threads gain nothing")
    replica.model.train()
    compute = Real(spec.workload.loss, replica, None, formula=spec.workload.gradients)
    batch = _batch(spec, compute)
    found: dict[int, list[float]] = {1: [], spec.threads: []}
    for _ in range(_ROUNDS):
        for threads, took in found.items():
            torch.set_num_threads(threads)
            compute.gradients(batch)  # threads start with the first step
            took.extend(_turn(compute, batch))
    return statistics.median(found[1]), statistics.median(found[spec.threads])


def _turn(compute: Real, batch: list[Tensor]) -> list[float]:
    """Step for a moment, once at least."""
    took: list[float] = []
    while sum(took) < _TURN_S:
        began_s = time.perf_counter()
        compute.gradients(batch)
        took.append(time.perf_counter() - began_s)
    return took


def _batch(spec: RunSpec, compute: Real) -> list[Tensor]:
    """Take as many rows as a step has, or as few as a quick step allows."""
    dtype = getattr(torch, spec.dtype)
    wanted = spec.batch if isinstance(spec.batch, int) else _MOST_ROWS
    if type(spec.workload).example is not Workload.example:
        columns = made_up(spec.workload.example(), wanted, dtype)
    else:  # which would read the data too
        data = spec.workload.data("train", dtype)
        columns = [*data.take(torch.arange(min(len(data), wanted)))]
    few = [each[:_FEW_ROWS] for each in columns]
    compute.gradients(few)
    began_s = time.perf_counter()
    compute.gradients(few)
    row_s = (time.perf_counter() - began_s) / _FEW_ROWS
    most = max(_FEW_ROWS, int(_LONGEST_S / row_s))
    return [each[:most] for each in columns]
