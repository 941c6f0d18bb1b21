"""Waiting for something, and no longer than a given time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from time import monotonic
from typing import final


@final
class Deadline:
    """The moment at which a wait ends, for several waits that have one time together."""

    def __init__(self, timeout_s: float | None) -> None:
        """Set it from now on; None: it never comes."""
        self._at_s = math.inf if timeout_s is None else monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """How many seconds are left; 0 when it has come."""
        return max(0.0, self._at_s - monotonic())


def time_left(timeout_s: float) -> Iterator[float]:
    """Yield how many seconds are left, again and again, until none are.

    The time runs from the first look on.
    """
    deadline = Deadline(timeout_s)
    while left_s := deadline.left_s:
        yield left_s
