"""What all benchmarks share: paired repetitions, and a ratio with its spread."""

from __future__ import annotations

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

    def line(self, wanted: float) -> str:
        """Say the median, the spread, and whether it is what was wanted."""
        low, high = min(self.each), max(self.each)
        verdict = "met" if self.median >= wanted else "MISSED"
        return (
            f"{self.title}: {self.median:.3f} ({low:.3f} to {high:.3f}, n={len(self.each)}); "
            f"medians {statistics.median(self.ours):,.0f} against "
            f"{statistics.median(self.theirs):,.0f}; wanted {wanted:.2f}: {verdict}"
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
