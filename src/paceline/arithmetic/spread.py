"""Steps vary: how long the slowest of several workers takes, and steps drawn at random."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence


def expected_slowest(factors: Sequence[float], slowness: Sequence[float]) -> float:
    """Expect the longest of one step per worker, each drawn from `factors` times its slowness.

    Exact for these draws: the slowest is at most x if every worker is, so the chances multiply.
    """
    if not factors:
        return max(slowness, default=1.0)
    ascending = sorted(factors)
    groups = Counter(slowness)
    points = sorted({factor * slow for factor in ascending for slow in groups})
    expected, before = 0.0, 0.0
    for point in points:
        chance = 1.0
        for slow, count in groups.items():
            chance *= _share_up_to(ascending, point / slow) ** count
        expected += point * (chance - before)
        before = chance
    return expected


def _share_up_to(ascending: Sequence[float], most: float) -> float:
    from bisect import bisect_right

    # What was multiplied and divided again may be off by the last digit.
    return bisect_right(ascending, most * (1 + 1e-12)) / len(ascending)


def mean(factors: Sequence[float]) -> float:
    """Give the mean of the factors; 1 where there are none."""
    return sum(factors) / len(factors) if factors else 1.0


def drawn(factors: Sequence[float], seed: int = 0) -> Callable[[], float]:
    """Give what draws a step's factor, the same ones each time it is asked anew."""
    if not factors:
        return lambda: 1.0
    source, choices = random.Random(seed), list(factors)  # noqa: S311 - no secret
    return lambda: source.choice(choices)


def relative(step_times_s: Sequence[float]) -> tuple[float, ...]:
    """Give measured steps over their median, ascending."""
    from statistics import median

    middle = median(step_times_s)
    return tuple(sorted(each / middle for each in step_times_s)) if middle > 0 else ()
