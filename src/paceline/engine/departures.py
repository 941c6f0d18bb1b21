"""What a departure means: the run ends, goes on without the seat, or has it started again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, final

from paceline.comm.roster import Seat
from paceline.faults import OnFailure


@final
@dataclass(frozen=True, kw_only=True)
class Loss:
    """A seat that can no longer be counted on."""

    seat: Seat
    reason: str
    how: Literal["departed", "failed", "lost"]
    """Its process ended; or it said that it cannot go on; or others cannot reach it."""
    num_before: int
    """How many times the seat was lost before, and started again though no fault asked for that."""
    has_trained: bool
    """Whether it is a worker that has done its part."""
    num_workers_left: int
    survives: bool
    """Whether the strategy's other workers can go on without it."""
    can_return: bool = False
    """Whether it is a server that others can wait for, until it is started again."""
    is_expected: bool = False
    """Whether it is to be started again anyway, as a fault of the spec says."""
    has_servers: bool = False
    """Whether servers keep the parameters, however few workers are there."""
    has_begun: bool = True
    """Whether training had begun."""


@final
@dataclass(frozen=True)
class EndRun:
    """The run cannot go on; the others are told why, and leave."""

    reason: str


@final
@dataclass(frozen=True)
class KeepThenEnd:
    """Too few workers are left: what they have is kept, then the run ends."""

    reason: str


@final
@dataclass(frozen=True)
class GoOn:
    """The run goes on, and the seat is no longer on its roster."""


@final
@dataclass(frozen=True)
class StartAgain:
    """The run goes on, and the cluster is asked to start the seat once more."""


@final
@dataclass(frozen=True)
class StartAllAgain:
    """The run ends here; another one goes on from its newest checkpoint, with all seats anew."""

    reason: str


Decision = EndRun | KeepThenEnd | GoOn | StartAgain | StartAllAgain


class DeparturePolicy(ABC):
    """Decides, once for each loss."""

    @abstractmethod
    def decide(self, loss: Loss) -> Decision:
        """Say what the loss means for the run."""


@final
@dataclass(frozen=True)
class AbortPolicy(DeparturePolicy):
    """Every loss ends the run."""

    def decide(self, loss: Loss) -> Decision:
        return EndRun(loss.reason)


@final
@dataclass(frozen=True)
class GoOnPolicy(DeparturePolicy):
    """Goes on without a seat that the others can do without, for as long as enough are left."""

    min_workers: int = 1

    def decide(self, loss: Loss) -> Decision:
        if _is_spare(loss) or (_is_awaited(loss) and loss.is_expected):
            return GoOn()
        # Others may have been lost since a fault struck what was not the last one then.
        may_be_last = loss.is_expected and loss.has_servers and self.min_workers == 1
        return _ends(loss, 0 if may_be_last else self.min_workers) or GoOn()


@final
@dataclass(frozen=True)
class ReplacePolicy(DeparturePolicy):
    """Has a worker started again, a few times; goes on without what need not come back."""

    most_restarts: int = 3
    """Of each worker: one that ends again and again would never let the run end."""
    min_workers: int = 0

    def decide(self, loss: Loss) -> Decision:
        if _is_spare(loss):
            return GoOn()
        if not _is_awaited(loss) and (ends := _ends(loss, self.min_workers)) is not None:
            return ends
        if loss.num_before >= self.most_restarts and not loss.is_expected:
            return EndRun(f"{loss.reason}, after it had been started again {loss.num_before}x")
        return StartAgain()


@final
@dataclass(frozen=True)
class RestartPolicy(DeparturePolicy):
    """Has all seats started again when one is lost, a few times in all.

    What cannot even begin would not begin the next time either; what began before was only struck
    while it was started again.
    """

    most_restarts: int = 3
    num_restarts: int = 0
    """How many times that was done before."""

    def decide(self, loss: Loss) -> Decision:
        if _is_spare(loss):
            return GoOn()
        if loss.how == "failed" or not (loss.has_begun or self.num_restarts):
            return EndRun(loss.reason)
        if self.num_restarts >= self.most_restarts:
            times = f"{self.num_restarts}x, the most allowed (max_restarts)"
            return EndRun(f"{loss.reason}, after the run had been started again {times}")
        return StartAllAgain(loss.reason)


def policy_of(
    on_failure: OnFailure, min_workers: int, max_restarts: int = 3, num_restarts: int = 0
) -> DeparturePolicy:
    """Make what a spec asks for. With one worker, that one may be away until it is back."""
    match on_failure:
        case "abort":
            return AbortPolicy()
        case "go-on":
            return GoOnPolicy(min_workers)
        case "replace":
            return ReplacePolicy(max_restarts, 0 if min_workers == 1 else min_workers)
        case "restart":
            return RestartPolicy(max_restarts, num_restarts)


def _is_spare(loss: Loss) -> bool:
    """Whether nothing more is needed of it: a monitor, or a worker whose part is done."""
    if loss.how != "departed" or not loss.has_begun:
        return False
    return loss.seat.role == "monitor" or (loss.has_trained and loss.num_workers_left > 0)


def _is_awaited(loss: Loss) -> bool:
    """Whether all wait until the seat is back. What it says is wrong with it would be so again."""
    return loss.has_begun and loss.can_return and loss.how != "failed"


def _ends(loss: Loss, min_workers: int) -> EndRun | KeepThenEnd | None:
    """Say why the run cannot go on, if so.

    Before training has begun every loss ends it. A server has parameters that no other seat has.
    What a seat says is wrong with it would be wrong again.
    """
    is_worker = loss.seat.role == "worker" and not loss.has_trained
    if not (loss.has_begun and is_worker and loss.survives) or loss.how == "failed":
        return EndRun(loss.reason)
    if loss.num_workers_left < min_workers:
        left = f"{loss.num_workers_left} of at least {min_workers} workers are left"
        reason = f"{loss.reason}; {left} (min_workers)" if min_workers > 1 else loss.reason
        return KeepThenEnd(reason) if loss.num_workers_left else EndRun(reason)
    return None
