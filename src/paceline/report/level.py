"""By what sides are compared: the time to a level of accuracy, through the same rows, or a rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

from paceline import curves
from paceline.report.sides import Measure, Side, comparable, task_words
from paceline.stored import StoredRun

# Sides that end this far below the best are said not to reach the level, and do not lower it.
_NEAR: Final = 0.05
# Rows that differ by less are the same rows: a last batch was short.
_SAME: Final = 0.02


@final
@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """What is compared, and in which direction."""

    kind: Literal["target", "accuracy", "rows", "rate"]
    words: str
    """As in `ring is fastest to 90 % accuracy`."""
    accuracy: float | None = None
    missed: str = ""
    """The target that was given, as in `to 95 % accuracy`, where nobody got there."""

    @property
    def less_is_better(self) -> bool:
        return self.kind != "rate"

    @property
    def unit(self) -> str:
        return "rows/s" if self.kind == "rate" else "s"

    def of(self, run: StoredRun) -> float | None:
        """Measure one run."""
        if self.kind == "target":
            return run.result.seconds_to_target
        if self.kind == "rows":
            return run.result.train_s
        if self.kind == "rate":
            return run.result.samples_per_s
        assert self.accuracy is not None
        return time_to(run, self.accuracy)

    def measure(self, side: Side) -> Measure | None:
        return side.measure(self.of)


@final
@dataclass(frozen=True, kw_only=True)
class Group:
    """Sides that may be compared with one another, and by what."""

    title: str
    """What they train, and on what."""
    sides: tuple[Side, ...]
    stick: Yardstick

    @property
    def finished(self) -> list[Side]:
        return [side for side in self.sides if side.finished]


def groups_of(sides: Sequence[Side]) -> list[Group]:
    """Part sides into those that may be compared: none with one of another workload or device."""
    return [
        Group(title=task_words(group[0], sides), sides=tuple(group), stick=yardstick(group))
        for group in comparable(sides)
    ]


def yardstick(sides: Sequence[Side]) -> Yardstick:
    """Choose by what to compare: a target all had, else an accuracy, else rows, else a rate.

    All of the sides have to be comparable. A target that nobody reached tells nothing.
    """
    runs = [run for side in sides for run in side.finished]
    targets = {run.result.target for run in runs}
    missed = ""
    if len(targets) == 1 and None not in targets:
        words = f"to {_target_words(str(*targets))}"
        if any(run.result.seconds_to_target is not None for run in runs):
            return Yardstick(kind="target", words=words)
        missed = words
    accuracy = common_accuracy(sides)
    if accuracy is not None:
        words = f"to {100 * accuracy:.0f} % accuracy"
        return Yardstick(kind="accuracy", words=words, accuracy=accuracy, missed=missed)
    rows = [run.result.samples for run in runs]
    if rows and max(rows) <= (1 + _SAME) * min(rows):
        return Yardstick(kind="rows", words=f"through {max(rows):,} rows", missed=missed)
    return Yardstick(kind="rate", words="by rows a second", missed=missed)


def common_accuracy(sides: Sequence[Side]) -> float | None:
    """Find the highest whole per cent that all sides reached which end near the best."""
    best = [_best(side) for side in sides if side.finished]
    known = [each for each in best if each is not None]
    if not known or len(known) < len(best):
        return None
    near = [each for each in known if each >= max(known) - _NEAR]
    return math.floor(100 * min(near)) / 100 or None


def time_to(run: StoredRun, accuracy: float) -> float | None:
    """Give the training time of the first evaluation at that accuracy or above."""
    rows = curves.metric(run)
    reached = rows.filter(rows["accuracy"] >= accuracy)
    return None if reached.is_empty() else float(reached["time_s"][0])


def _best(side: Side) -> float | None:
    """The accuracy that all of a side's runs reached; None where too few evaluations tell when."""
    highest = []
    for run in side.finished:
        rows = curves.metric(run)
        if len(rows) < 2:
            return None
        highest.append(max(map(float, rows["accuracy"])))
    return min(highest)


def _target_words(target: str) -> str:
    name, _, value = target.partition(" ")
    return (
        f"{100 * float(value):g} % accuracy" if name == "accuracy" and " " not in value else target
    )
