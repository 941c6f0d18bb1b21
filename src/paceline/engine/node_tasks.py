"""What is done on a node for commands that are no run: watch a command, calibrate a workload."""

from __future__ import annotations

import dataclasses
import tomllib
from typing import TypeVar

from paceline.clusters.base import Berth
from paceline.comm.node_words import (
    CommandEnded,
    CommandMissing,
    CommandUsed,
    MeasureRates,
    RatesMeasured,
    StepsMeasured,
    WatchCommand,
)
from paceline.comm.spelling import decode
from paceline.comm.vocabularies import NODE_TASKS
from paceline.comm.words import Word
from paceline.spec import RunSpec

Task = TypeVar("Task", bound=Word)


def watch(berth: Berth) -> int:
    """Run a command here, and tell what it uses: rows, and at last its exit code."""
    from paceline.measure.job import NotStarted, watch_job

    task = _task(berth, WatchCommand)
    try:
        code = watch_job(
            task.command, task.interval_s, lambda sample: berth.line.send(CommandUsed(sample))
        )
    except NotStarted as error:
        berth.line.send(CommandMissing(str(error)))
        return 0
    berth.line.send(CommandEnded(code))
    return 0


def calibrate(berth: Berth) -> int:
    """Measure a workload here, with the threads that one worker of this node has."""
    import tomli_w

    from paceline.planning.calibration import calibrate as measure
    from paceline.planning.calibration import file_table

    task = _task(berth, MeasureRates)
    spec = RunSpec.from_table(tomllib.loads(task.spec))
    spec = dataclasses.replace(spec, threads=berth.ticket.orders.threads)
    rates = measure(
        spec,
        task.num_steps,
        lambda done, total: berth.line.send(StepsMeasured(num_done=done, num_steps=total)),
    )
    table = file_table(task.device, spec.workload.name, rates, task.source)
    berth.line.send(RatesMeasured(rates=tomli_w.dumps(table), note=rates.note))
    return 0


def _task(berth: Berth, kind: type[Task]) -> Task:
    """Give what this seat was started for."""
    word = decode((berth.ticket.orders.spec or "").encode(), NODE_TASKS)
    assert isinstance(word, kind)
    return word
