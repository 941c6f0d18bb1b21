"""How long each phase of a step takes, summed over many steps."""

from __future__ import annotations

from time import perf_counter_ns
from types import TracebackType
from typing import final

from paceline.training.state import State, Stateful, StateReader, attributes


@final
class Span(Stateful):
    """A phase of the step: `with span:` adds the time inside to `total_ns`.

    Entered thousands of times a second, so it keeps sums, not events.
    """

    __slots__ = ("began_ns", "ended_ns", "total_ns")

    def __init__(self) -> None:
        self.began_ns = 0
        self.ended_ns = 0
        self.total_ns = 0

    def __enter__(self) -> None:
        self.began_ns = perf_counter_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ended_ns = now = perf_counter_ns()
        self.total_ns += now - self.began_ns

    def take_s(self) -> float:
        """Give the seconds summed since this was last asked."""
        total, self.total_ns = self.total_ns, 0
        return total / 1e9

    def state(self) -> State:
        return attributes(self, "total_ns")

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "total_ns")
