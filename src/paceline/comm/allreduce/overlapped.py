"""All-reduce behind the caller's back: begun while the caller still computes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import perf_counter_ns
from typing import TYPE_CHECKING, final

from paceline.comm.allreduce.base import AllReduce

if TYPE_CHECKING:
    from torch import Tensor


@final
@dataclass
class Reduction:
    """A tensor that is being averaged, and when that began and ended."""

    values: Tensor
    began_ns: int = 0
    ended_ns: int = 0


@final
class Overlapped:
    """Carries out reductions one after the other, in the order they were begun.

    A thread of its own does so while the caller computes. What is left when the caller has nothing
    more to compute and the thread has nothing to do is done by the caller itself: it costs no
    change of threads then.
    """

    def __init__(self, all_reduce: AllReduce) -> None:
        self._all_reduce = all_reduce
        self._begun: SimpleQueue[Reduction | None] = SimpleQueue()
        self._done: SimpleQueue[Reduction | BaseException] = SimpleQueue()
        self._num_begun = 0
        # What the thread has taken off the queue and not carried out: one at most.
        self._upcoming: deque[Reduction | None] = deque()
        self._thread: threading.Thread | None = None

    def begin(self, values: Tensor) -> None:
        """Have a tensor replaced by its mean over all ranks; it must not be touched meanwhile."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="all-reduce", daemon=True)
            self._thread.start()
        self._num_begun += 1
        self._begun.put(Reduction(values))

    def finish(self, rest: list[Tensor]) -> list[Reduction]:
        """Wait for all that was begun, do the rest here; returns all in the order of `begin`."""
        if self._done.qsize() < self._num_begun:  # what follows can then be sent ahead
            while rest:
                self.begin(rest.pop(0))
        finished = [self._await() for _ in range(self._num_begun)]
        self._num_begun = 0
        left = deque(Reduction(values) for values in rest)
        while left:
            finished.append(left.popleft())
            self._carry_out(finished[-1], lambda: left[0] if left else None)
        return finished

    def _await(self) -> Reduction:
        done = self._done.get()
        if isinstance(done, BaseException):
            raise done
        return done

    def _work(self) -> None:
        while (reduction := self._take()) is not None:
            try:
                self._carry_out(reduction, self._peek)
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                self._done.put(error)
                return
            self._done.put(reduction)

    def _take(self) -> Reduction | None:
        return self._upcoming.popleft() if self._upcoming else self._begun.get()

    def _peek(self) -> Reduction | None:
        """Give what the thread carries out next."""
        if not self._upcoming:
            with suppress(Empty):
                self._upcoming.append(self._begun.get_nowait())
        return self._upcoming[0] if self._upcoming else None

    def _carry_out(self, reduction: Reduction, following: Callable[[], Reduction | None]) -> None:
        def upcoming() -> Tensor | None:
            found = following()
            return None if found is None else found.values

        self._all_reduce.following = upcoming
        reduction.began_ns = perf_counter_ns()
        self._all_reduce.reduce(reduction.values, mean=True)
        reduction.ended_ns = perf_counter_ns()

    def close(self) -> None:
        """End the thread, unless it waits for a rank that is gone: it ends with the process."""
        self._begun.put(None)
