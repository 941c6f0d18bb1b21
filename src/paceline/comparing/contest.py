"""Carrying specs out one after the other, as often as it takes to know the spread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final, Self, final

from paceline.clusters.zygote import Zygote
from paceline.comparing.earlier import Earlier
from paceline.engine import driver
from paceline.engine.progress import RunView
from paceline.errors import (
    Interrupted,
    PacelineError,
    Problem,
    RunError,
    SpecError,
    TooLittleMemory,
)
from paceline.outcome.results import Result
from paceline.reporting.conclusion import rankings_of
from paceline.reporting.sides import sides_of
from paceline.spec import RunSpec
from paceline.store.runs import DEFAULT_OUT, RunDir
from paceline.store.stored import StoredRun

BUDGET_S: Final = 180.0
"""How long a comparison may go on repeating its sides, where no number of times is given."""
# A short run varies more, and costs less to repeat.
_SHORT_S: Final = 10.0
_FEWEST: Final = 2
_FEWEST_SHORT: Final = 3
# From five runs on the lowest and the highest are left out of the spread: see `Measure.inner`.
_MOST: Final = 5


@final
@dataclass(frozen=True, kw_only=True)
class Repeats:
    """How often each side is run: a given number of times, or until the spread is known."""

    number: int | None = None
    budget_s: float = BUDGET_S

    @classmethod
    def of(cls, repeat: int | None, budget_s: float | None) -> Self:
        """Check what is asked for: a number, or a budget, or neither."""
        if repeat is not None and budget_s is not None:
            reason = f"not with --repeat {repeat}, which sets the exact number"
            raise SpecError([Problem("--budget", budget_s, reason)])
        if repeat is not None and repeat < 1:
            raise SpecError([Problem("--repeat", repeat, "a side runs at least once")])
        return cls(number=repeat, budget_s=BUDGET_S if budget_s is None else budget_s)

    @property
    def least(self) -> int:
        return self.number or _FEWEST_SHORT

    def sentence(self, num_sides: int) -> str:
        """Say in advance how many runs there will be, or how long it may take."""
        if self.number is not None:
            return f"{num_sides * self.number} runs: {num_sides} sides, {self.number} each."
        return (
            f"{num_sides} sides, in turns, until the spread is known: {_FEWEST_SHORT} to {_MOST} "
            f"runs each where a run takes less than {_SHORT_S:g} s, {_FEWEST} to {_MOST} where it "
            f"takes longer; no new round if it would end after {self.budget_s:g} s (--budget)."
        )


@final
@dataclass(frozen=True, kw_only=True)
class ContestStanding:
    """How far a comparison is."""

    done: int
    total: int
    may_grow: bool
    """Whether more runs follow if the spread is not known then."""
    spec: RunSpec
    view: RunView
    fraction: float
    """Of the whole."""
    left_s: float | None


@final
@dataclass
class Contest:
    """Carries specs out one after the other, and knows how far the whole is.

    A spec that failed is not tried again. An interrupt ends the contest; what is finished is kept.
    """

    total: int = 0
    """How many runs there will be, so far as is known before."""
    out: Path = DEFAULT_OUT
    watch: Callable[[ContestStanding], None] = lambda _: None
    zygote: Zygote | None = None
    """What the runs import torch with, once for all."""
    earlier: Earlier | None = None
    """Runs of an attempt before, which count as if they were made now."""
    results: list[tuple[RunSpec, Result]] = field(default_factory=list)
    failures: list[tuple[RunSpec, str]] = field(default_factory=list)
    interrupted: bool = False
    may_grow: bool = False
    num_made: int = 0
    """How many runs were made or left out so far."""
    _took_s: list[float] = field(default_factory=list)

    def run(self, specs: Sequence[RunSpec], rounds: int = 1) -> None:
        """Run every spec so many times, in turns; every other round goes backwards.

        So whatever drifts on a machine, its clock or its neighbours, favours none.
        """
        for number in range(rounds):
            self._round(specs, number)

    def run_until_known(self, specs: Sequence[RunSpec], budget_s: float, rounds: int = 0) -> None:
        """Run every spec until the spread is known, or another round would go beyond the budget.

        `rounds` is how many of these were run before. The first round is made in any case.
        """
        began_s = time.monotonic()
        self.may_grow = True
        while not self.interrupted and self._num_left(specs):
            round_s = self._round_s(specs)
            if round_s is not None and rounds > 0:
                is_over = time.monotonic() - began_s + round_s > budget_s
                if is_over or (rounds >= self._least(specs) and self._is_known(specs, rounds)):
                    break
            self.total = self.num_made + len(specs) * max(1, self._least(specs) - rounds)
            self._round(specs, rounds)
            rounds += 1
        self.may_grow = False

    def stored(self, specs: Sequence[RunSpec]) -> list[StoredRun]:
        """Give the runs of some specs, as a report reads them."""
        return [
            StoredRun(RunDir(Path(result.run)), result)
            for spec, result in self.results
            if spec in specs
        ]

    def _least(self, specs: Sequence[RunSpec]) -> int:
        """How many rounds there are at least, judged by the longest run so far."""
        lengths = [
            (result.train_s or 0.0) * result.dilation
            for spec, result in self.results
            if spec in specs
        ]
        return _FEWEST if max(lengths, default=0.0) >= _SHORT_S else _FEWEST_SHORT

    def _is_known(self, specs: Sequence[RunSpec], rounds: int) -> bool:
        """Whether more rounds would tell no more."""
        if rounds >= _MOST:
            return True
        rankings = rankings_of(sides_of(self.stored(specs)))
        return not any(each.wants_more for each in rankings)

    def _round_s(self, specs: Sequence[RunSpec]) -> float | None:
        """How long another round takes, as runs took so far."""
        return self._num_left(specs) * median(self._took_s) if self._took_s else None

    def _num_left(self, specs: Sequence[RunSpec]) -> int:
        """How many have not failed: those that have are not run again."""
        failed = [spec for spec, _ in self.failures]
        return sum(spec not in failed for spec in specs)

    def _round(self, specs: Sequence[RunSpec], number: int) -> None:
        for spec in specs if number % 2 == 0 else reversed(specs):
            if self.interrupted:
                return
            if not any(spec == failed for failed, _ in self.failures):
                self._once(spec)
            self.num_made += not self.interrupted

    def _once(self, spec: RunSpec) -> None:
        began_s = time.monotonic()
        taken = None if self.earlier is None else self.earlier.take(spec)
        if isinstance(taken, StoredRun):
            self.results.append((spec, taken.result))
            return
        try:
            result = driver.run(
                spec,
                out=self.out,
                watch=lambda view: self._show(spec, view, began_s),
                zygote=self.zygote,
                origin=taken,
            )
        except (Interrupted, KeyboardInterrupt):
            self.interrupted = True
            return
        except TooLittleMemory:  # of this machine: no other run would do better
            raise
        except PacelineError as error:  # of this run: the others go on
            self.failures.append((spec, str(error)))
            if isinstance(error, RunError) and error.result is not None:
                self.results.append((spec, error.result))
            return
        self.results.append((spec, result))
        self._took_s.append(time.monotonic() - began_s)

    def _show(self, spec: RunSpec, view: RunView, began_s: float) -> None:
        is_begun = view.phase not in {"preparing", "starting"}
        part = (view.fraction or 0.0) if is_begun else 0.0
        num_left = self.total - self.num_made - 1
        self.watch(
            ContestStanding(
                done=self.num_made,
                total=self.total,
                may_grow=self.may_grow,
                spec=spec,
                view=view,
                fraction=min(1.0, (self.num_made + part) / max(1, self.total)),
                left_s=self._left_s(view, part, time.monotonic() - began_s, num_left),
            )
        )

    def _left_s(self, view: RunView, part: float, spent_s: float, num_left: int) -> float | None:
        """Guess how long the rest takes, from the runs before, or else from this one."""
        if self._took_s:
            whole_s = median(self._took_s)
        elif part > 0:
            whole_s = spent_s / part
        else:
            return None
        this_s = view.left_s if view.left_s is not None else max(0.0, whole_s - spent_s)
        return this_s + max(0, num_left) * whole_s
