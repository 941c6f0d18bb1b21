"""Gradients in groups that leave together, in the order back-propagation finishes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from paceline.errors import StateError
from paceline.training.state import State, Stateful, StateReader, whole_numbers

if TYPE_CHECKING:
    from torch import nn

    from paceline.training.replica import Replica


@final
@dataclass
class Bucket:
    """A stretch of the gradient vector."""

    start: int
    stop: int
    parameters: list[nn.Parameter] = field(default_factory=list)


def cut(replica: Replica, bucket_bytes: int) -> list[Bucket]:
    """Group parameters from the last to the first, as back-propagation is likely to finish them.

    A parameter is never split: its gradient is finished all at once.
    """
    size = replica.gradients.element_size()
    buckets: list[Bucket] = []
    for parameter, place in reversed(replica.places.items()):
        if not buckets or (buckets[-1].stop - place.start) * size > bucket_bytes:
            buckets.append(Bucket(place.stop, place.stop))
        buckets[-1].start = place.start
        buckets[-1].parameters.append(parameter)
    return buckets or [Bucket(0, 0)]


@final
class SendOrder(Stateful):
    """Which buckets may leave: those that are finished, in one order that all ranks keep to."""

    def __init__(self, buckets: Sequence[Bucket]) -> None:
        self._bucket_of = {
            parameter: index
            for index, bucket in enumerate(buckets)
            for parameter in bucket.parameters
        }
        self._sizes = [len(bucket.parameters) for bucket in buckets]
        self.order = list(range(len(buckets)))
        self.begin()

    def begin(self) -> None:
        """A new step: no gradient is finished."""
        self._missing = list(self._sizes)
        self._num_left = 0
        self._finished: list[int] = []

    def note(self, parameter: nn.Parameter) -> list[int]:
        """A gradient is finished; returns the buckets that may leave now.

        The last in the order is kept for the end of the step: nothing is computed any more that
        it could hide behind.
        """
        index = self._bucket_of[parameter]
        self._missing[index] -= 1
        if self._missing[index] < 0:
            raise RuntimeError(
                "a gradient was finished twice in one step; ring sends a gradient off as soon as "
                "it is finished, so a loss may be back-propagated only once"
            )
        if self._missing[index]:
            return []
        self._finished.append(index)
        leaving = []
        while self._num_left < len(self.order) - 1 and not self._missing[self._next]:
            leaving.append(self._next)
            self._num_left += 1
        return leaving

    @property
    def _next(self) -> int:
        return self.order[self._num_left]

    def rest(self) -> list[int]:
        """The buckets that have not left; a gradient that was not needed never gets finished."""
        return self.order[self._num_left :]

    def seen_order(self) -> list[int]:
        """The order in which this step finished the buckets; the last one stays the last."""
        last = self.order[-1]
        unseen = [index for index in self.order if index not in self._finished]
        return [index for index in [*self._finished, *unseen] if index != last] + [last]

    def state(self) -> State:
        return {"order": whole_numbers(self.order)}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            order = fields.whole_numbers("order")
        if sorted(order) != sorted(self.order):
            raise StateError("order", str(order), f"not an order of {len(self.order)} buckets")
        self.order = order
