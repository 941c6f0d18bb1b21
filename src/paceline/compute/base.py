"""The seam between a worker's loop and what takes the time of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from paceline.training.state import State, Stateful, StateReader

if TYPE_CHECKING:
    from torch import Tensor


class Compute(Stateful, ABC):
    """Fills a replica's gradients from a batch."""

    has_loss: ClassVar[bool] = True
    """Whether a loss comes with the gradients; what `gradients` returns is no number otherwise."""

    @abstractmethod
    def gradients(self, batch: Sequence[Tensor]) -> float:
        """Compute the gradients of one batch; returns its loss."""

    @abstractmethod
    def accumulate(self, batch: Sequence[Tensor]) -> float:
        """Compute one of a step's several batches, not the last; returns its loss.

        No gradient is ready yet. `gradients` of the last batch then gives the mean over all.
        """

    def settle(self) -> None:
        """Bring what the model has learnt beside its parameters to the replica: before others look.

        That is where it is computed elsewhere: buffers, such as statistics of batches.
        """

    def check(self) -> None:
        """Look whether what is trained is still what it was; asked with every row of records."""

    def counted(self) -> Mapping[str, Any]:
        """Give what was counted, for the worker's totals.

        Known are `device_busy_s` (how long a replayed device computed) and `late_steps` (how
        many steps took it longer than they should have; None where that cannot be told).
        """
        return {}

    def state(self) -> State:
        """Give what was counted; gradients are computed anew in every step."""
        return {}

    def load(self, state: State) -> None:
        with StateReader(state):
            pass
