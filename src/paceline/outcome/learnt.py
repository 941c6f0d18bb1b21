"""Whether anything finite was learnt, from what the workers said when they had trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from paceline.outcome.accounts import RefusedSteps, WorkerAccount
from paceline.training.finite import OF_ANOTHER, cause_of

Totals = Mapping[str, WorkerAccount]


def nothing_learnt(totals: Totals) -> tuple[str, str] | None:
    """Name a worker and say why, where no worker learnt anything finite."""
    made = {name: said for name, said in totals.items() if said.worker_steps}
    if not made:
        return None
    if all(said.refused == said.worker_steps for said in made.values()):
        name = max(made, key=lambda each: _num_own(made[each]))
        steps, flaws = made[name].worker_steps, made[name].refused_because
        return name, f"all of its {steps:,} steps were refused: {cause_of(flaws)}"
    if all(said.final_loss is None for said in made.values()):
        name = next(iter(made))
        why = "no training loss in the last tenth of the steps is a finite number"
        return name, f"{why}; lower optimizer.lr, or look for NaN in the data"
    return None


def _num_own(said: WorkerAccount) -> int:
    """How many of a worker's steps were refused for its own gradient."""
    return sum(count for flaw, count in said.refused_because.items() if flaw != OF_ANOTHER)


def mean_loss(totals: Totals) -> float | None:
    """Average the final losses of the workers that have one."""
    said = [each.final_loss for each in totals.values() if each.worker_steps]
    known = [loss for loss in said if loss is not None]
    return sum(known) / len(known) if known else None


def warnings_of(
    totals: Totals, failed: Mapping[str, RefusedSteps], final_loss: float | None
) -> list[str]:
    """Warn of steps that were refused, and of losses that are no numbers.

    `failed`: what workers said that did not come to their end.
    """
    by_worker: dict[str, WorkerAccount | RefusedSteps] = {**failed, **totals}
    said = by_worker.values()
    steps = sum(each.worker_steps for each in said)
    refused = sum(each.refused or 0 for each in said)
    odd = sum(each.odd_losses for each in totals.values())
    warnings = []
    if refused:
        warnings.append(
            f"{refused:,} of {steps:,} worker steps were refused: a gradient was not finite "
            f"({_listed(_flaws(said))})"
        )
    if odd and final_loss is not None:
        warnings.append(
            f"{odd:,} of {steps:,} training losses were not finite numbers; final_loss is the "
            "mean of the others"
        )
    return warnings


def _flaws(said: Iterable[WorkerAccount | RefusedSteps]) -> Counter[str]:
    joined: Counter[str] = Counter()
    for each in said:
        joined.update(each.refused_because)
    return joined


def _listed(flaws: Counter[str]) -> str:
    return ", ".join(f"{flaw}: {count:,}" for flaw, count in sorted(flaws.items()))
