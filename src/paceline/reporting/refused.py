"""What is said of steps that came to nothing because a gradient was not finite."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.outcome.results import Result
from paceline.reporting.sides import Side
from paceline.store.stored import StoredRun
from paceline.training.finite import OF_ANOTHER


def refused_share(run: StoredRun) -> float | None:
    """Give the part of a run's worker steps that was refused."""
    result = run.result
    return result.refused_steps / result.worker_steps if result.worker_steps else None


def any_refused(sides: Sequence[Side]) -> bool:
    """Whether a side learnt from fewer rows than it read: what it lost may be why it is behind."""
    return any(run.result.refused_steps for side in sides for run in side.finished)


def refusals(sides: Sequence[Side]) -> list[str]:
    """Say how many steps of each side were refused, and what that means for its accuracy."""
    told = [
        f"{side.label} {_counted(side.shown.result)}"
        for side in sides
        if side.finished and side.shown.result.refused_steps
    ]
    if not told:
        return []
    why = f"because gradients were not finite ({', '.join(_flaws(sides))})"
    said = f"Steps were refused, {why}: {'; '.join(told)}."
    return [f"{said} Nothing is learnt from the rows of such a step, so accuracies may differ."]


def _counted(result: Result) -> str:
    share = 100 * result.refused_steps / result.worker_steps
    return f"{result.refused_steps:,} of {result.worker_steps:,} worker steps ({share:.1f} %)"


def _flaws(sides: Sequence[Side]) -> list[str]:
    """Name what was wrong with gradients; another worker's flaw is named by that worker."""
    workers = [each for side in sides for each in side.shown.result.workers]
    flaws = {flaw for each in workers for flaw in each.refused_because}
    return sorted(flaws - {OF_ANOTHER}) or sorted(flaws)
