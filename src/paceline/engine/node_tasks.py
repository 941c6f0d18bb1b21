"""What is done on a node for commands that are no run: watch a command, calibrate a workload."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from typing import Any

from paceline.clusters.base import Berth
from paceline.comm.words import Answered
from paceline.spec import RunSpec


def watch(berth: Berth) -> int:
    """Run a command here, and tell what it uses: rows, and at last its exit code."""
    from paceline.measure.job import NotStarted, watch_job

    asked = _asked(berth)

    def note(row: dict[str, Any]) -> None:
        berth.line.send(Answered({"row": row}))

    try:
        code = watch_job(asked["command"], asked["interval_s"], note)
    except NotStarted as error:
        berth.line.send(Answered({"problem": str(error)}))
        return 0
    berth.line.send(Answered({"code": code}))
    return 0


def calibrate(berth: Berth) -> int:
    """Measure a workload here, with the threads that one worker of this node has."""
    from paceline.planning.calibration import calibrate as measure
    from paceline.planning.calibration import file_table

    asked = _asked(berth)
    spec = RunSpec.from_table(tomllib.loads(asked["spec"]))
    spec = dataclasses.replace(spec, threads=berth.ticket.orders.threads)
    rates = measure(
        spec,
        asked["repeat"],
        lambda done, total: berth.line.send(Answered({"done": done, "total": total})),
    )
    table = file_table(asked["device"], spec.workload.name, rates, asked["source"])
    berth.line.send(Answered({"table": json.dumps(table), "note": rates.note}))
    return 0


def _asked(berth: Berth) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(berth.ticket.orders.spec or "{}")
    return found
