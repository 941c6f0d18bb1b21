"""Waiting for a word of shared memory that is about to change, without going to sleep.

To sleep and be woken takes as long as a small exchange itself. Whoever lets others have the
processor instead, and looks again, is there at once. But it is a courtesy to everybody on the
machine: where others have much to do, it may come back only milliseconds later. Then it is better
to sleep, since whoever is woken goes first.
"""

from __future__ import annotations

from os import sched_yield
from time import perf_counter_ns
from typing import Final, final

_MOST_YIELDS: Final = 300
# A yield that took longer than this went to somebody who has more to do than a short step.
_LONG_NS: Final = 1_000_000
# For so many waits nobody is let ahead then.
_NUM_SKIPPED: Final = 200


@final
class Patience:
    """Whether waiting a little is worth it; learnt while waiting. Used by one thread."""

    def __init__(self) -> None:
        self._num_skipped = 0

    def await_word(self, words: memoryview, index: int, number: int) -> bool:
        """Wait a little for a word to be at least so large; returns whether it is."""
        if words[index] >= number:
            return True
        if self._num_skipped:
            self._num_skipped -= 1
            return False
        before_ns = perf_counter_ns()
        for _ in range(_MOST_YIELDS):
            sched_yield()
            if words[index] >= number:
                return True
            now_ns = perf_counter_ns()
            if now_ns - before_ns > _LONG_NS:
                self._num_skipped = _NUM_SKIPPED
                return False
            before_ns = now_ns
        return False
