"""The level of a metric that all sides reached, and when each got there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Final

from paceline.reporting.sides import Side
from paceline.store import curves
from paceline.store.stored import StoredRun
from paceline.training.metrics import Better, Target, better_of

# Sides that end this far below the best are said not to reach the level, and do not lower it: five
# points of accuracy, or this part of what the best one learnt since the first evaluations.
_NEAR: Final = 0.05
_NEAR_PART: Final = 0.25


def common_level(sides: Sequence[Side]) -> Target | None:
    """Find the best round level that all sides reached which end near the best.

    Of accuracy, or else of the first metric of which it is known which way is better.
    """
    finished = [side for side in sides if side.finished]
    if not finished:
        return None
    better = better_of(finished[0].shown.result.better)
    levels = (_level(finished, metric, way) for metric, way in better.items())
    return next((level for level in levels if level is not None), None)


def time_to(run: StoredRun, level: Target) -> float | None:
    """Give the training time of the first evaluation that reached the level."""
    rows = curves.metric(run, level.metric)
    for time_s, value in zip(rows["time_s"], rows[level.metric], strict=True):
        if level.is_met({level.metric: value}):
            return float(time_s)
    return None


def _level(sides: Sequence[Side], metric: str, better: Better) -> Target | None:
    """The same of one metric; None where too few evaluations tell when a side got there."""
    sign = 1 if better == "higher" else -1
    lines = {
        side.label: [[sign * value for value in _values(run, metric)] for run in side.finished]
        for side in sides
    }
    if any(len(line) < 2 for each in lines.values() for line in each):
        return None
    reached = [min(max(line) for line in each) for each in lines.values()]
    best = max(reached)
    if metric == "accuracy":
        near, digits = _NEAR, 2
    else:
        gain = best - median(line[0] for each in lines.values() for line in each)
        if gain <= 0:
            return None
        near, digits = _NEAR_PART * gain, 1 - math.floor(math.log10(gain))
    worst = min(each for each in reached if each >= best - near)
    value = sign * _floor(worst, digits)
    return Target(metric, better, value) if value or metric != "accuracy" else None


def _values(run: StoredRun, metric: str) -> list[float]:
    return [float(value) for value in curves.metric(run, metric)[metric]]


def _floor(value: float, digits: int) -> float:
    """Round down to so many digits behind the point; before it, where there are less than none."""
    scale = 10.0**digits
    return round(math.floor(value * scale) / scale, digits)
