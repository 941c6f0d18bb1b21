"""The two choices of a parameter server, kept apart: application and admission.

*Application* is how gradients become updates: each on arrival, or the average of so many.
*Admission* is how far ahead of the others a worker may run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from paceline.errors import StateError
from paceline.training.state import State, Stateful, StateReader, by_number, whole_numbers


class Admission(Stateful, ABC):
    """Decides whether a worker that has completed a step may start its next."""

    exact: ClassVar[bool] = False
    """Whether a worker goes on from exactly the parameters there were when it was let go; else
    they may be newer."""

    @abstractmethod
    def complete(self, worker: int) -> bool:
        """A worker has completed a step; returns whether it may go on."""

    @abstractmethod
    def join(self, worker: int) -> None:
        """A worker has come that may start a step: as far as the slowest of the others."""

    @abstractmethod
    def leave(self, worker: int) -> None:
        """A worker will make no more steps, and holds up nobody."""

    @abstractmethod
    def come_back(self, state: State | None, workers: Collection[int]) -> None:
        """Go on from an earlier state, or the present one, with these workers: each is at least
        as far as it was then.
        """

    @abstractmethod
    def greet(self, worker: int, num_more: int, *, waits: bool) -> None:
        """A worker has come by so many steps further than it was; perhaps it has to wait."""

    @abstractmethod
    def released(self) -> list[int]:
        """Say which workers that had to wait may go on now; each is said once."""


@final
class Free(Admission):
    """Everyone may always go on."""

    def complete(self, worker: int) -> bool:
        del worker
        return True

    def join(self, worker: int) -> None:
        """Nobody waits for anybody."""

    def leave(self, worker: int) -> None:
        """Nobody waits for anybody."""

    def come_back(self, state: State | None, workers: Collection[int]) -> None:
        """There is nothing to go back to."""

    def greet(self, worker: int, num_more: int, *, waits: bool) -> None:
        """Nobody waits for anybody."""

    def released(self) -> list[int]:
        return []

    def state(self) -> State:
        return {}

    def load(self, state: State) -> None:
        with StateReader(state):
            pass


@final
class Bounded(Admission):
    """A worker with c steps behind it may go on while c - min <= staleness."""

    exact: ClassVar[bool] = True

    def __init__(self, workers: Iterable[int], staleness: int) -> None:
        self._staleness = staleness
        self._clocks = dict.fromkeys(workers, 0)
        self._waiting: set[int] = set()

    def complete(self, worker: int) -> bool:
        self._clocks[worker] += 1
        if self._may_go(worker):
            return True
        self._waiting.add(worker)
        return False

    def join(self, worker: int) -> None:
        self._clocks[worker] = min(self._clocks.values(), default=0)

    def come_back(self, state: State | None, workers: Collection[int]) -> None:
        clocks: Mapping[int, int] = self._clocks
        if state is not None:
            clocks = StateReader(state).counts_by_number("clocks")
        # Of one that came since it is only known that it was no further behind than the slowest.
        slowest = min(clocks.values(), default=0)
        self._clocks = {worker: clocks.get(worker, slowest) for worker in workers}
        self._waiting = set()

    def greet(self, worker: int, num_more: int, *, waits: bool) -> None:
        self._clocks[worker] += num_more
        if waits:
            self._waiting.add(worker)

    def leave(self, worker: int) -> None:
        self._clocks.pop(worker, None)
        self._waiting.discard(worker)

    def released(self) -> list[int]:
        free = sorted(worker for worker in self._waiting if self._may_go(worker))
        self._waiting.difference_update(free)
        return free

    def state(self) -> State:
        return {
            "clocks": by_number(self._clocks),
            "waiting": whole_numbers(sorted(self._waiting)),
        }

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            clocks, waiting = fields.counts_by_number("clocks"), fields.whole_numbers("waiting")
        if not clocks.keys() <= self._clocks.keys():
            raise StateError("clocks", str(sorted(clocks)), f"expected {sorted(self._clocks)}")
        if not clocks.keys() >= set(waiting):
            raise StateError("waiting", str(waiting), f"expected some of {sorted(clocks)}")
        self._clocks, self._waiting = dict(clocks), set(waiting)

    def _may_go(self, worker: int) -> bool:
        return self._clocks[worker] - min(self._clocks.values()) <= self._staleness


@final
@dataclass(frozen=True)
class Rules:
    """What makes one parameter server differ from another."""

    averaged: int | None
    """How many gradients an update averages; None: each push is an update of its own."""
    admission: Admission
    whole: bool = True
    """Whether a gradient that is not finite is refused whole; else chunk by chunk."""

    def starters(self, workers: Sequence[int], most_steps: int | None) -> Sequence[int]:
        """Say which workers make a first step: no more than there are updates to make."""
        return workers if self.averaged is not None else workers[:most_steps]
