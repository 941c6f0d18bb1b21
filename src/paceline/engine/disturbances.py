"""Notes what disturbs a run: when each fault struck, was known, and was overcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, final

from paceline.engine.ledger import Ledger
from paceline.outcome.disturbed import Disturbance


@final
class Disturbances:
    """What the driver knows of each, in the order in which they struck."""

    def __init__(self, ledger: Ledger, now: Callable[[], float]) -> None:
        self._ledger = ledger
        self._now = now
        self._num_updates = 0
        self._waiting: dict[int, tuple[float, int]] = {}
        """Which are known and not overcome: since when, and how many updates there were."""
        self._repeating = {
            index: each.lost_step
            for index, each in enumerate(self._all)
            if each.lost_step is not None and each.updated_s is None
        }
        """Those of earlier attempts: how many updates there had been."""

    @property
    def _all(self) -> list[Disturbance]:
        return self._ledger.outcome.disturbances

    def struck(self, who: str, fault: str) -> None:
        """A fault was injected."""
        self._all.append(Disturbance(who=who, fault=fault, struck_s=self._ledger.time_s))

    def num_struck(self, fault: str) -> int:
        """How many times a fault was injected, in earlier attempts too."""
        return sum(each.fault == fault for each in self._all)

    def ended(self, fault: str) -> None:
        """A fault that lasts is over."""
        index = self._find(lambda each: each.fault == fault and each.ended_s is None)
        self._note(index, ended_s=self._ledger.time_s)

    def known(self, who: str, node: str, reason: str) -> int:
        """A seat was given up: because of a fault of its own or of its node, or of another.

        Gives which of all disturbances that is.
        """
        now_s = self._ledger.time_s
        index = self._find(lambda each: each.who in (who, node) and each.known_s is None)
        if index is None or self._all[index].back_s is not None:
            self._all.append(Disturbance(who=who, struck_s=now_s))
            index = len(self._all) - 1
        self._note(index, who=who, known_s=now_s, reason=reason)
        self._waiting[index] = (self._now(), self._num_updates)
        return index

    def started(self, who: str) -> None:
        """A seat was started while others train."""
        index = self._find(lambda each: each.who == who and each.started_s is None)
        self._note(index, started_s=self._ledger.time_s)

    def back(self, who: str) -> None:
        """It takes part."""
        index = self._find(lambda each: each.who == who and each.back_s is None)
        self._note(index, back_s=self._ledger.time_s)

    def trains_again(self) -> None:
        """All seats that were started again begin to train."""
        for index in self._repeating:
            if self._all[index].back_s is None:
                self._note(index, back_s=self._ledger.time_s)

    def updated(self, global_steps: int) -> None:
        """So many updates were made, as a worker says."""
        if global_steps <= self._num_updates:
            return
        self._num_updates = global_steps
        for index, (_, before) in list(self._waiting.items()):
            if global_steps > before:
                del self._waiting[index]
                self._note(index, updated_s=self._ledger.time_s)
        for index, before in list(self._repeating.items()):
            if global_steps > before:
                del self._repeating[index]
                self._note(index, updated_s=self._ledger.time_s)

    def wait_anew(self) -> None:
        """No update can be made now: what is not overcome is waited for from now on."""
        for index, (_, before) in self._waiting.items():
            self._waiting[index] = (self._now(), before)

    def waited_s(self) -> float:
        """For how long no update was made since the first loss that is not overcome."""
        return max((self._now() - since_s for since_s, _ in self._waiting.values()), default=0.0)

    @property
    def overdue(self) -> str:
        """The seat after whose loss no update came."""
        return self._all[min(self._waiting)].who

    def _find(self, fits: Callable[[Disturbance], bool]) -> int | None:
        found = [index for index, each in enumerate(self._all) if fits(each)]
        return found[-1] if found else None

    def _note(self, index: int | None, **fields: Any) -> None:
        if index is not None:
            self._all[index] = replace(self._all[index], **fields)
