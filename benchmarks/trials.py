"""Several contenders measured in turn, and the tables that come of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bounded import DidNotRun
from ratios import Ratio

Rates = list[float | None]


@dataclass
class Trials:
    """Rates by contender, one a repetition; None where it did not run."""

    rates: dict[str, Rates] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a contender did not run."""

    def measured(self, name: str) -> list[float]:
        return [rate for rate in self.rates[name] if rate is not None]

    def ratio(self, ours: str, theirs: str) -> Ratio | None:
        """Ours over theirs, in each repetition where both ran."""
        pairs = [
            (our, their)
            for our, their in zip(self.rates[ours], self.rates[theirs], strict=True)
            if our is not None and their is not None
        ]
        if not pairs:
            return None
        return Ratio(f"{ours} over {theirs}", *zip(*pairs, strict=True))


def take_turns(
    names: Sequence[str],
    measure: Callable[[str], float],
    repetitions: int,
    say: Callable[[str], None],
    show: Callable[[float], str] = "{:,.0f}".format,
) -> Trials:
    """Measure all, again and again, each time beginning with another.

    One that did not run is not tried again: it would mostly wait for its deadline once more.
    """
    trials = Trials({name: [] for name in names})
    for number in range(repetitions):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            trials.rates[name].append(_try(trials, name, measure))
            say(f"{number + 1} of {repetitions}: {name}: {_outcome(trials, name, show)}")
    return trials


def _try(trials: Trials, name: str, measure: Callable[[str], float]) -> float | None:
    if name in trials.reasons:
        return None
    try:
        return measure(name)
    except DidNotRun as error:
        trials.reasons[name] = str(error)
        return None


def _outcome(trials: Trials, name: str, show: Callable[[float], str]) -> str:
    rate = trials.rates[name][-1]
    return trials.reasons[name] if rate is None else show(rate)


def spread(values: Sequence[float], digits: int = 0) -> str:
    """The median, and the lowest to the highest."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f}, n={len(values)})"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, its columns aligned."""
    cells = [list(heads), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    lines = (
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )
    return "\n".join(f"| {line} |" for line in lines)
