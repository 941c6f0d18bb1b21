"""What disturbed a run: each fault or loss, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from paceline.outcome.facts import Facts
from paceline.seats import role_of

GOES_BACK_WITH: Final = "it goes back with"
"""Begins the reason why a server is ended that others go back with."""
_Span: TypeAlias = tuple[float, float]


@final
@dataclass(frozen=True, kw_only=True)
class Setback:
    """A loss after which all seats are to be started again."""

    index: int
    """Which of the run's disturbances it is."""
    time_s: float
    """When that was decided, on the training clock."""
    moment_s: float
    """The same on the driver's monotonic clock."""


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
    lost_step: int | None = None
    """How many steps the run had made when all of its seats were started again; None where they
    were not. The next update is then the first that had not been made before."""
    from_step: int | None = None
    """The step that they started from: of the newest checkpoint, or 0 where there was none."""

    @property
    def is_late(self) -> bool:
        """Whether it is a worker that came late."""
        return self.fault is not None and self.fault.startswith("late:")

    @property
    def is_absence(self) -> bool:
        """Whether a seat was away because of it, and may have come back."""
        return self.known_s is not None or self.started_s is not None or self.is_late

    @property
    def goes_along(self) -> bool:
        """Whether it is a server that was ended since another was lost: both lost the same."""
        return self.reason is not None and self.reason.startswith(GOES_BACK_WITH)

    @property
    def repeated_steps(self) -> int:
        """How many steps were made once more because of it."""
        return (self.lost_step or 0) - (self.from_step or 0)

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
    or a server was struck, the others wait from then until the next update. Where all were started
    again, no worker did anything new until the first step that had not been made before. A moment
    that is lost twice counts once.
    """
    if not disturbances or not train_s:
        return None
    waits = _waits(disturbances, train_s, in_step=bool(facts.in_step))
    lost_s = 0.0
    for name in facts.workers:
        spans = _away(name, disturbances, train_s) + [span for who, span in waits if who != name]
        lost_s += _covered_s(spans, train_s)
    return max(0.0, 1.0 - lost_s / (facts.num_workers * train_s))


def _away(name: str, disturbances: Sequence[Disturbance], train_s: float) -> list[_Span]:
    """When a worker did not take part: until it did again, or was struck anew before that."""
    own = [each for each in disturbances if each.who == name and each.is_absence]
    ends = [*(each.struck_s for each in own), train_s][1:]
    return [
        (0.0 if each.is_late else each.struck_s, end_s if each.back_s is None else each.back_s)
        for each, end_s in zip(own, ends, strict=True)
    ]


def _waits(
    disturbances: Sequence[Disturbance], train_s: float, *, in_step: bool
) -> list[tuple[str, _Span]]:
    """After each loss, when workers could not make an update without the one that is gone.

    All need a server; a worker is needed by those that are in step with it. With each goes who did
    not wait but was away.
    """
    waits = []
    for each in disturbances:
        if each.lost_step is not None:
            waits.append(("", (each.struck_s, _first_known(each.updated_s, train_s))))
        elif each.known_s is not None and (in_step or role_of(each.who) == "server"):
            end_s = _first_known(each.updated_s, each.back_s, train_s)
            waits.append((each.who, (each.struck_s, end_s)))
    return waits


def _first_known(*moments: float | None) -> float:
    return next(each for each in moments if each is not None)


def _covered_s(spans: Iterable[_Span], train_s: float) -> float:
    """How long the spans last together, what several cover counted once."""
    covered_s = reached_s = 0.0
    for begin_s, end_s in sorted(spans):
        stop_s = min(end_s, train_s)
        covered_s += max(0.0, stop_s - max(begin_s, reached_s))
        reached_s = max(reached_s, stop_s)
    return covered_s


def sentence(each: Disturbance) -> str:
    """Tell what happened, in the order in which it did."""
    what = f"{each.fault} struck" if each.fault else f"{each.who} was lost"
    parts = [f"at {each.struck_s:.1f} s {what}"]
    if each.known_s is not None:
        cause = f" ({each.reason})" if each.reason else ""
        parts.append(f"known after {each.known_s - each.struck_s:.1f} s{cause}")
    if each.lost_step is not None:
        parts += _started_again(each)
    elif each.updated_s is not None:
        parts.append(f"next update after {each.updated_s - each.struck_s:.1f} s")
    if each.ended_s is not None:
        parts.append(f"over after {each.ended_s - each.struck_s:.1f} s")
    if each.back_s is not None and each.lost_step is None:
        parts.append(f"{each.who} took part again after {each.back_s - each.struck_s:.1f} s")
    if each.updates_lost is not None and not each.goes_along:
        parts.append(f"{each.updates_lost:,} updates were lost")
    return ", ".join(parts)


def _started_again(each: Disturbance) -> list[str]:
    """Tell how all seats came to be where the run had been."""
    parts = [f"all seats were started again from step {each.from_step:,}"]
    if each.back_s is not None:
        parts.append(f"they trained after {each.back_s - each.struck_s:.1f} s")
    if each.updated_s is not None:
        parts.append(
            f"{each.repeated_steps:,} steps were repeated, and the first new one came after "
            f"{each.updated_s - each.struck_s:.1f} s"
        )
    return parts
