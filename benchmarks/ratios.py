"""What all benchmarks share: paired repetitions, and a ratio with its spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """A figure of ours over a peer's, measured side by side several times."""

    title: str
    ours: Sequence[float]
    theirs: Sequence[float]

    @property
    def each(self) -> list[float]:
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    @property
    def median(self) -> float:
        return statistics.median(self.each)

    def is_met(self, wanted: float, most: float = math.inf) -> bool:
        """Whether the median is at least what was wanted, and no more than what is too much."""
        return wanted <= self.median <= most

    def line(self, wanted: float, most: float = math.inf) -> str:
        """Say the median, the spread, and whether it is what was wanted."""
        low, high = min(self.each), max(self.each)
        verdict = "met" if self.is_met(wanted, most) else "MISSED"
        bounds = f"{wanted:.2f}" if most == math.inf else f"{wanted:.2f} to {most:.2f}"
        return (
            f"{self.title}: {self.median:.3f} ({low:.3f} to {high:.3f}, n={len(self.each)}); "
            f"medians {statistics.median(self.ours):,.0f} against "
            f"{statistics.median(self.theirs):,.0f}; wanted {bounds}: {verdict}"
        )


def alternate(
    title: str, ours: Callable[[], float], theirs: Callable[[], float], repetitions: int
) -> Ratio:
    """Measure the two in turn, changing who goes first, so that a noisy machine favours neither."""
    measured: tuple[list[float], list[float]] = ([], [])
    for number in range(repetitions):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        for index in order:
            measured[index].append((ours, theirs)[index]())
    return Ratio(title, *measured)
