"""What the driver adds to an outcome when the seats have left."""

from __future__ import annotations

from paceline.engine.conductor import Conductor
from paceline.outcome.outcome import Outcome
from paceline.spec import RunSpec
from paceline.system import address_space


def note_stragglers(conductor: Conductor, outcome: Outcome) -> None:
    """Name the seats that had to be killed in the end."""
    if outcome.status == "finished" and conductor.stragglers:
        names = ", ".join(conductor.stragglers)
        outcome.warnings.append(f"did not exit after the run and was killed: {names}")


def note_host(spec: RunSpec, failed_seat: str | None, outcome: Outcome) -> None:
    """Say which machine a failed seat was on: what failed may well be the machine."""
    nodes = [seat.node for seat in spec.seats() if seat.name == failed_seat]
    for node in nodes:
        host = spec.cluster.host_of(node)
        label = f"{node} ({host})"
        if host is not None and outcome.status == "failed" and label not in (outcome.reason or ""):
            outcome.reason = f"{outcome.reason}; it was on {label}"


def note_limit(outcome: Outcome) -> None:
    """Say what a process could have, where that may be why a run failed."""
    limit = address_space.remark()
    if outcome.status == "failed" and limit is not None:
        outcome.warnings.append(limit)
