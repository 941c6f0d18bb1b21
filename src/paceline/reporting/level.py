"""By what sides are compared: the time to a level of a metric, through the same rows, or a rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

from paceline.reporting.common_level import common_level, time_to
from paceline.reporting.sides import Measure, Side, comparable, task_words
from paceline.store.stored import StoredRun
from paceline.training.metrics import Target, target_words

# Rows that differ by less are the same rows: a last batch was short.
_SAME: Final = 0.02


@final
@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """What is compared, and in which direction."""

    kind: Literal["target", "level", "rows", "rate"]
    words: str
    """As in `ring is fastest to 90 % accuracy`."""
    level: Target | None = None
    missed: str = ""
    """The target that was given, as in `to 95 % accuracy`, where no side got there."""

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
        assert self.level is not None
        return time_to(run, self.level)

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
    """Choose by what to compare: a target all had, else a level, else rows, else a rate.

    All of the sides have to be comparable. A target that nobody reached tells nothing.
    """
    runs = [run for side in sides for run in side.finished]
    targets = {run.result.target for run in runs}
    missed = ""
    if len(targets) == 1 and None not in targets:
        words = f"to {target_words(str(*targets))}"
        if any(run.result.seconds_to_target is not None for run in runs):
            return Yardstick(kind="target", words=words)
        missed = words
    level = common_level(sides)
    if level is not None:
        return Yardstick(kind="level", words=f"to {level.words}", level=level, missed=missed)
    rows = [run.result.samples for run in runs]
    if rows and max(rows) <= (1 + _SAME) * min(rows):
        return Yardstick(kind="rows", words=f"through {max(rows):,} rows", missed=missed)
    return Yardstick(kind="rate", words="by rows per second", missed=missed)
