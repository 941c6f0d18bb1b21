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

    def __init__(self, ledger: Ledger, now: Callable[[], float], known_s: float = 0.0) -> None:
        """Within `known_s` after a fault has ended it is known who is gone because of it."""
        self._known_s = known_s
        self._ledger = ledger
        self._now = now
        self._num_updates = 0
        self._num_before = len(self._all)
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

    def missed(self, fault: str, why: str) -> None:
        """A fault could not be injected: whoever reads of the run must know that it had none."""
        self._ledger.warn(f"the fault {fault} never struck: {why}")

    @property
    def num_faults(self) -> int:
        """How many faults were injected so far."""
        return sum(each.fault is not None for each in self._all)

    def ended(self, fault: str) -> None:
        """A fault that lasts is over."""
        index = self._find(lambda each: each.fault == fault and each.ended_s is None)
        self._note(index, ended_s=self._ledger.time_s)

    def known(self, who: str, node: str, reason: str) -> int:
        """A seat was given up: because of a fault of its own or of its node, or of another.

        Gives which of all disturbances that is.
        """
        now_s = self._ledger.time_s
        index = self._find(lambda each: each.who in (who, node) and self._explains(each, now_s))
        if index is None:
            self._all.append(Disturbance(who=who, struck_s=now_s))
            index = len(self._all) - 1
        self._note(index, who=who, known_s=now_s, reason=reason)
        self._waiting[index] = (self._now(), self._num_updates)
        return index

    def _explains(self, each: Disturbance, now_s: float) -> bool:
        """Whether a seat that is given up now may be so because of this."""
        if each.known_s is not None or each.back_s is not None:
            return False
        is_slow = each.fault is not None and each.fault.startswith("slow:")
        after_s = 0.0 if is_slow else self._known_s
        return each.ended_s is None or now_s - each.ended_s <= after_s

    def started(self, who: str) -> None:
        """A seat was started while others train."""
        index = self._find(
            lambda each: each.who == who and each.is_absence and each.started_s is None
        )
        self._note(index, started_s=self._ledger.time_s)

    def back(self, who: str) -> None:
        """It takes part."""
        index = self._find(lambda each: each.who == who and each.is_absence and each.back_s is None)
        self._note(index, back_s=self._ledger.time_s)

    def trains_again(self) -> None:
        """All seats that were started again begin to train."""
        for index in self._repeating:
            if self._all[index].back_s is None:
                self._note(index, back_s=self._ledger.time_s)

    def restored(self, who: str, version: int, num_lost: int) -> None:
        """A server takes part again, and updates are counted from this version on."""
        for index, each in enumerate(self._all):
            if each.who == who and each.known_s is not None and each.back_s is None:
                self._note(index, back_s=self._ledger.time_s, updates_lost=num_lost)
                num_lost = 0  # lost once, however often it was started until it served
        self._num_updates = min(self._num_updates, version)
        for waiting, (since_s, before) in self._waiting.items():
            self._waiting[waiting] = (since_s, min(before, version))

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
        found = [
            index
            for index, each in enumerate(self._all)
            if index >= self._num_before and fits(each)  # earlier attempts are over
        ]
        return found[-1] if found else None

    def _note(self, index: int | None, **fields: Any) -> None:
        if index is not None:
            self._all[index] = replace(self._all[index], **fields)
