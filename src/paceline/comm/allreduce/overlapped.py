"""All-reduce behind the caller's back: begun while the caller still computes."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from queue import SimpleQueue
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

    A thread of its own does so while the caller computes. What is not under way when the caller
    has nothing more to compute is done by the caller itself: it costs no change of threads then.
    """

    def __init__(self, all_reduce: AllReduce) -> None:
        self._all_reduce = all_reduce
        self._begun: SimpleQueue[Reduction | None] = SimpleQueue()
        self._done: SimpleQueue[Reduction | BaseException] = SimpleQueue()
        self._num_begun = 0
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
        finished = [self._await() for _ in range(self._num_begun)]
        self._num_begun = 0
        for values in rest:
            reduction = Reduction(values)
            self._carry_out(reduction)
            finished.append(reduction)
        return finished

    def _await(self) -> Reduction:
        done = self._done.get()
        if isinstance(done, BaseException):
            raise done
        return done

    def _work(self) -> None:
        while (reduction := self._begun.get()) is not None:
            try:
                self._carry_out(reduction)
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                self._done.put(error)
                return
            self._done.put(reduction)

    def _carry_out(self, reduction: Reduction) -> None:
        reduction.began_ns = perf_counter_ns()
        self._all_reduce.reduce(reduction.values, mean=True)
        reduction.ended_ns = perf_counter_ns()

    def close(self) -> None:
        """End the thread, unless it waits for a rank that is gone: it ends with the process."""
        self._begun.put(None)
