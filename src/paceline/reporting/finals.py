"""How well sides ended: the sentence of a conclusion about what was learnt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from paceline.reporting.metric_columns import tested_value
from paceline.reporting.refused import any_refused
from paceline.reporting.sides import Side
from paceline.training.metrics import better_of, written

# Values this close are called alike: half a point of accuracy, or this part of other metrics.
_ALIKE: Final = 0.005
_ALIKE_PART: Final = 0.02


def finals(sides: Sequence[Side]) -> list[str]:
    """Say between which values the sides ended, the worst first.

    By accuracy, or else by the first metric of which it is known which way is better.
    """
    for metric, better in better_of(sides[0].shown.result.better).items():
        known = [(side.median(partial(tested_value, metric=metric)), side) for side in sides]
        ends = sorted(((value, side.label) for value, side in known if value is not None))
        if len(ends) > 1:
            worst_first = ends if better == "higher" else ends[::-1]
            return [f"{_told(metric, worst_first, _hint(sides))}."]
    return []


def _told(metric: str, ends: Sequence[tuple[float, str]], hint: str) -> str:
    (worst, who), (best, other) = ends[0], ends[-1]
    if metric == "accuracy":
        first, last = (f"{100 * value:.1f}" for value in (worst, best))
        if best - worst < _ALIKE:
            return f"Final accuracies are alike, {first} to {last} %"
        return f"Final accuracy goes from {first} % ({who}) to {last} % ({other}){hint}"
    name = "test loss" if metric == "loss" else metric
    first, last = written(metric, worst), written(metric, best)
    if abs(best - worst) < _ALIKE_PART * max(abs(best), abs(worst)):
        return f"All sides end with about the same {name}, {first} to {last}"
    return f"Final {name} goes from {first} ({who}) to {last} ({other}){hint}"


def _hint(sides: Sequence[Side]) -> str:
    """Fewer updates for the same rows learn less at one learning rate: say so."""
    if any_refused(sides):  # that is a cause of its own, and told
        return ""
    known = [each for each in (side.shown.result.global_steps for side in sides) if each]
    rows = [side.shown.result.samples for side in sides]
    if max(rows) > 1.1 * min(rows):
        return ""
    rates = {repr(side.shown.settings.get("optimizer.lr")) for side in sides}
    scaled = any(side.shown.settings.get("optimizer.lr_scaling") == "linear" for side in sides)
    if not known or scaled or len(rates) > 1 or max(known) < 1.5 * min(known):
        return ""
    return (
        ": at one learning rate those with fewer updates for the same rows learn less "
        "(--lr-scaling linear or --tune-lr compare them fairly)"
    )
