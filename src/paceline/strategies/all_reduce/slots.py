"""What goes round with the gradients: who wishes to stop, and how long each exchange took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

from paceline.training.state import State, Stateful, StateReader, attributes

if TYPE_CHECKING:
    from torch import Tensor

# The gradients after the slots begin where the processor likes vectors to begin.
_ALIGNED_BYTES: Final = 64
_COUNTED: Final = ("_waited_s", "late_s", "wait_s", "times_last")


@final
class Slots(Stateful):
    """A few values in front of the gradients, averaged with them.

    The first says whether any rank wishes to stop, so that all stop after the same step. Then
    each rank has one of its own, for how long its exchange of the step before took: whoever came
    last waited least. So each learns how late it came, though no two hosts have the same clock.
    """

    def __init__(self, name: str, workers: Sequence[str]) -> None:
        self._name = name
        self.follow(workers)
        self._waited_s = 0.0
        self.late_s = 0.0
        self.wait_s = 0.0
        self.times_last = 0

    def follow(self, workers: Sequence[str]) -> None:
        """Be one of these workers from now on; `lie_in` must be called anew."""
        self._rank = workers.index(self._name)
        self._num_ranks = len(workers)
        self._num_used = len(workers) + 1

    def num_values(self, item_bytes: int, most_workers: int = 0) -> int:
        """How many values to leave free in front of the gradients, for as many as may come."""
        num_used = max(self._num_used, most_workers + 1)
        lines = -(-num_used * item_bytes // _ALIGNED_BYTES)
        return lines * _ALIGNED_BYTES // item_bytes

    def lie_in(self, values: Tensor) -> None:
        """Use the first of these values from now on."""
        # A few numbers are written and read far quicker through numpy than through torch.
        self._values = values[: self._num_used].numpy()

    def write(self, *, last: bool) -> None:
        """Lay out what this rank has to say."""
        said = self._values
        said[:] = 0.0
        said[0] = last
        said[1 + self._rank] = self._waited_s

    def read(self, waited_s: float) -> bool:
        """Take note of what all said; returns whether to stop. `waited_s` is said next time."""
        stops, *waits = self._values.tolist()
        longest, shortest, mine = max(waits), min(waits), waits[self._rank]
        if longest > 0:
            # Values are means over the ranks, and all but one of a slot are zero.
            self.late_s += (longest - mine) * self._num_ranks
            self.wait_s += (mine - shortest) * self._num_ranks
            self.times_last += mine == shortest
        self._waited_s = waited_s
        return bool(stops > 0)

    def state(self) -> State:
        return attributes(self, *_COUNTED)

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, *_COUNTED)
