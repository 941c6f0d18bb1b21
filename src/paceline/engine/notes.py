"""What the driver adds to an outcome when the seats have left."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from paceline.comm.roster import Seat
from paceline.engine.conductor import Conductor
from paceline.engine.progress import RunView
from paceline.outcome.outcome import Outcome
from paceline.spec import RunSpec
from paceline.system import address_space


def note_stragglers(conductor: Conductor, outcome: Outcome) -> None:
    """Name the seats that had to be killed in the end."""
    if outcome.status == "finished" and conductor.stragglers:
        names = ", ".join(conductor.stragglers)
        outcome.warnings.append(f"did not exit after the run and was killed: {names}")


def note_uneven(spec: RunSpec, outcome: Outcome) -> None:
    """Say whose scripts made more steps, where each steps by itself until its script ends."""
    limits = (spec.steps, spec.worker_steps, spec.samples, spec.seconds, *spec.targets)
    is_theirs = outcome.status == "finished" and all(each is None for each in limits)
    steps = {name: each.worker_steps for name, each in outcome.totals.items()}
    if not (steps and is_theirs and spec.strategy.takes_over_rows):
        return
    first, last = min(steps, key=lambda each: steps[each]), max(steps, key=lambda each: steps[each])
    if steps[first] < steps[last] and not outcome.disturbances:
        outcome.warnings.append(
            f"workers made from {steps[first]:,} steps ({first}) to {steps[last]:,} ({last}): "
            "their scripts had different numbers of batches, or one left its loop"
        )


def note_host(
    seats: Sequence[Seat], labels: Mapping[str, str], failed_seat: str | None, outcome: Outcome
) -> None:
    """Say which machine a failed seat was on: what failed may well be the machine."""
    for node in [seat.node for seat in seats if seat.name == failed_seat]:
        label = labels.get(node)
        if label and outcome.status == "failed":
            outcome.reason = _with_host(outcome.reason or "", node, label)


def naming_host(
    view: RunView,
    seats: Sequence[Seat],
    labels: Mapping[str, str],
    failed_seat: str | None,
    outcome: Outcome,
) -> RunView:
    """Have whoever watches know at once which machine failed: ending the others takes a while."""
    for node in [seat.node for seat in seats if seat.name == failed_seat]:
        label = labels.get(node)
        if label and not any(label in alert for alert in view.alerts):
            text = _with_host(outcome.reason or "", node, label)
            return dataclasses.replace(view, alerts=(*view.alerts, text))
    return view


def _with_host(reason: str, node: str, label: str) -> str:
    """Name a node as its user knows it, once."""
    told = reason.removesuffix(f", on {node}")
    if label in told:
        return told
    return f"{told}, on {label}" if told != reason else f"{reason}; it was on {label}"


def note_limit(outcome: Outcome) -> None:
    """Say what a process could have, where that may be why a run failed."""
    limit = address_space.remark()
    if outcome.status == "failed" and limit is not None:
        outcome.warnings.append(limit)
