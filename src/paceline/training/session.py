"""What a training loop is written with: one worker's steps, driven by a workload's `train`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


class Session(ABC):
    """The steps of one worker, for a loop to drive until `last`.

    A step is these calls, in this order; any other order raises `LoopError`:

        while not session.last:
            batch = session.next_batch()
            session.compute(batch)
            session.exchange()
            session.pause()

    A step may take several batches: `session.compute(session.next_batch(), more=True)` for all but
    its last, and it applies the mean of their gradients. Epochs and samples then count all batches,
    worker steps do not.

    What a loop does between two calls is its own, and on the training clock. The session counts
    steps, writes rows and comes to the evaluations, whoever drives it. It is used by one thread.
    """

    last: bool
    """Whether training is over for this worker: the loop ends."""

    num_steps: int
    """How many steps this worker has made."""

    model: nn.Module
    """What is trained. Its parameters are views of one vector: change values in place only."""

    @abstractmethod
    def next_batch(self) -> Sequence[Tensor]:
        """Load this worker's next batch; an empty one where compute is replayed."""

    @abstractmethod
    def compute(self, batch: Sequence[Tensor], *, more: bool = False) -> float:
        """Compute the gradients of a batch, the one that was loaded or made of it; gives its loss.

        `more` says that another batch of the same step follows. With the last batch the strategy's
        part of the step begins: it may hold the worker back first, and gradients may leave while
        others are still computed. Gives NaN where compute is replayed.
        """

    @abstractmethod
    def exchange(self) -> None:
        """Turn the gradients into new parameters, as the strategy does; that is a step."""

    @abstractmethod
    def pause(self) -> None:
        """Come to rest with all other workers if an evaluation is due, else return at once."""

    @abstractmethod
    def stop(self) -> None:
        """Wish that the next step be the last; workers that step together then all end with it."""
