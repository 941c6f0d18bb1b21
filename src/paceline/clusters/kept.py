"""A keeper, as the driver sees it: who of its seats is left, and what it has said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final, final

from paceline.clusters.base import Departure
from paceline.comm.keeper_words import Built, Cannot, Dump, KeeperReady, Left, Seated
from paceline.comm.line import Line, LineClosed
from paceline.comm.words import Word
from paceline.system.waiting import Deadline

_PATIENCE_S: Final = 5.0
# The host of one that was given up may be gone: it is not to hold up the news of that.
_LOST_S: Final = 1.0
# How often it is looked whether its node was lost.
_LOOK_S: Final = 0.2


@final
class KeptNode:
    """The driver's end of a line to a keeper, and what came over it."""

    def __init__(self, line: Line, seats: Sequence[str], gone: str) -> None:
        """`gone` is what is said of the seats when the keeper is no more."""
        self.line = line
        self.pid: int | None = None
        self.built = Built(links=[], warnings=[], is_capped=True)
        self.is_seated = False
        self.clock_offset_s: float | None = None
        self.clock_uncertainty_s: float | None = None
        self._sitting = dict.fromkeys(seats, 0)
        self._gone = gone
        self._is_given_up = False

    def departures(self) -> list[Departure]:
        """Say which seats have ended since this was last asked; does not wait."""
        left: list[Departure] = []
        try:
            while word := self.line.receive(timeout_s=0):
                left += self._hear(word)
        except LineClosed:
            left += self._all_left(self._gone)
        return left

    def give_up(self, reason: str) -> list[Departure]:
        """Say that all seats that are left are gone; what the keeper says is not waited for."""
        self._is_given_up = True
        return self._all_left(reason, is_final=True)

    def dump_stack(self, seat: str) -> None:
        """Have a seat of this keeper write where it is."""
        if seat in self._sitting:
            self.ask(Dump(seat))

    def ask(self, word: Word) -> None:
        """Ask the keeper for something."""
        with contextlib.suppress(LineClosed):  # then all are gone, which is noticed elsewhere
            self.line.send(word)

    def has_seated(self, seat: str, incarnation: int) -> None:
        """The keeper was asked to start a seat again."""
        self._sitting[seat] = incarnation

    def is_gone(self, is_lost: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the keeper's end of its line to close, which nobody else holds.

        `is_lost` says whether its node was lost meanwhile, so that the wait is a short one.
        """
        deadline = Deadline(_LOST_S if self._is_given_up else _PATIENCE_S)
        try:
            while deadline.left_s:
                if word := self.line.receive(min(deadline.left_s, _LOOK_S)):
                    self._hear(word)
                if not self._is_given_up and is_lost():
                    self._is_given_up, deadline = True, Deadline(_LOST_S)
        except LineClosed:
            return True
        return False

    def _hear(self, word: Word) -> list[Departure]:
        match word:
            case KeeperReady(pid, clock_offset_s, clock_uncertainty_s):
                self.pid = pid
                self.clock_offset_s = clock_offset_s
                self.clock_uncertainty_s = clock_uncertainty_s
            case Built():
                self.built = word
            case Seated():
                self.is_seated = True
            case Cannot(reason):
                return self._all_left(f"its node could not be created: {reason}")
            case Left(seat, reason, incarnation):
                if self._sitting.get(seat) == incarnation:
                    del self._sitting[seat]
                return [Departure(seat, reason, incarnation)]
        return []

    def _all_left(self, reason: str, *, is_final: bool = False) -> list[Departure]:
        sitting = sorted(self._sitting.items())
        left = [Departure(name, reason, each, is_final) for name, each in sitting]
        self._sitting.clear()
        return left
