"""Waiting for something, and no longer than a given time."""

from __future__ import annotations

import contextlib
import math
import subprocess
from collections.abc import Iterator
from time import monotonic
from typing import Any, final


@final
class Deadline:
    """The moment at which a wait ends, for several waits that have one time together."""

    def __init__(self, timeout_s: float | None) -> None:
        """Set it from now on; None: it never comes."""
        self.timeout_s = timeout_s
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


def end_of(process: subprocess.Popen[Any], patience_s: float) -> None:
    """Let a process end by itself, of which the input is closed; end it if that takes longer."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
