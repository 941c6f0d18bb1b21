"""What disturbed a run: each fault or loss, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from paceline.outcome.facts import Facts
from paceline.seats import role_of


@final
@dataclass(frozen=True, kw_only=True)
class Disturbance:
    """One fault that struck, or a seat that was lost. Moments are of the training clock."""

    who: str
    """The seat, or the node whose link was cut."""
    fault: str | None = None
    """What was injected, as the spec says it; None where nothing was injected."""
    struck_s: float
    """When it struck; a loss that was not injected: when it was known."""
    ended_s: float | None = None
    """When a fault that lasts was over."""
    known_s: float | None = None
    """When the driver gave the seat up; None where it never had to."""
    reason: str | None = None
    """How the driver came to know."""
    updated_s: float | None = None
    """When the first update after that was seen, a tenth of a second exact."""
    started_s: float | None = None
    """When the seat was started again, or for the first time where it was late."""
    back_s: float | None = None
    """When it took part again: the run was at full strength."""
    updates_lost: int | None = None
    """How many updates that workers had seen a server lost, which went back to its snapshot."""

    @property
    def detection_s(self) -> float | None:
        """From the fault to the decision to go on without the seat."""
        return None if self.known_s is None else self.known_s - self.struck_s

    @property
    def update_s(self) -> float | None:
        """From the fault to the next update."""
        return None if self.updated_s is None else self.updated_s - self.struck_s

    @property
    def strength_s(self) -> float | None:
        """From the start of a seat that comes back to its part in training."""
        if self.back_s is None or self.started_s is None:
            return None
        return self.back_s - self.started_s


def goodput(
    disturbances: Sequence[Disturbance], facts: Facts, train_s: float | None
) -> float | None:
    """Give the part of all workers' time in which they trained; None where nothing disturbed them.

    A worker is away from the moment it was struck until it takes part again. Where all are in step,
    the others wait from then until the next update.
    """
    if not disturbances or not train_s:
        return None
    lost_s = 0.0
    for each in disturbances:
        if each.known_s is not None and role_of(each.who) == "server":  # all wait for it
            end_s = each.updated_s or each.back_s or train_s
            lost_s += facts.num_workers * max(0.0, end_s - each.struck_s)
        elif each.known_s is not None:
            end_s = train_s if each.back_s is None else each.back_s
            lost_s += max(0.0, end_s - each.struck_s)
            lost_s += (facts.num_workers - 1) * max(0.0, each.update_s or 0.0) * bool(facts.in_step)
        elif each.started_s is not None:  # it came late
            lost_s += train_s if each.back_s is None else each.back_s
    return max(0.0, 1.0 - lost_s / (facts.num_workers * train_s))


def sentence(each: Disturbance) -> str:
    """Tell what happened, in the order in which it did."""
    what = f"{each.fault} struck" if each.fault else f"{each.who} was lost"
    parts = [f"at {each.struck_s:.1f} s {what}"]
    if each.known_s is not None:
        cause = f" ({each.reason})" if each.reason else ""
        parts.append(f"known after {each.known_s - each.struck_s:.1f} s{cause}")
    if each.updated_s is not None:
        parts.append(f"next update after {each.updated_s - each.struck_s:.1f} s")
    if each.ended_s is not None:
        parts.append(f"over after {each.ended_s - each.struck_s:.1f} s")
    if each.back_s is not None:
        parts.append(f"{each.who} took part again after {each.back_s - each.struck_s:.1f} s")
    if each.updates_lost is not None:
        parts.append(f"{each.updates_lost:,} updates were lost")
    return ", ".join(parts)
