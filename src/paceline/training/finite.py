"""Whether gradients can be applied at all, and what is counted where they cannot."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from paceline.errors import NotFinite
from paceline.training.state import State, Stateful, StateReader, attributes

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_REFUSED: Final = 50
"""After how many refused steps in a row a run fails, unless the spec says otherwise."""

NAN: Final = "NaN"
INFINITE: Final = "infinite"
TOO_LARGE: Final = "too large"
OF_ANOTHER: Final = "of another worker"
"""What can be wrong with a gradient. The last is a step refused for another worker's gradient."""

_CAUSES: Final = {
    NAN: "a gradient is NaN; look for NaN in the data, and in the loss for the log or the root of "
    "a number that is not positive",
    INFINITE: "a gradient is infinite; look in the loss for a division by zero or the log of zero, "
    "or lower optimizer.lr",
    TOO_LARGE: "a gradient is too large for its dtype (the sum of its squares overflows); lower "
    "optimizer.lr, or scale the inputs or the loss",
    OF_ANOTHER: "a gradient of another worker is not finite",
}


def are_finite(gradients: npt.NDArray[Any]) -> bool:
    """Whether all are numbers; so large that their squares overflow, they are of no use either.

    One product is far cheaper than looking at each value, and numpy's than torch's.
    """
    return math.isfinite(squares_of(gradients))


def squares_of(gradients: npt.NDArray[Any]) -> float:
    """Add up the squares of all, in their own dtype."""
    try:
        return float(gradients.dot(gradients))
    except RuntimeWarning:  # numpy's word for an overflow, where warnings are errors
        return math.inf


def flaw_in(*gradients: npt.NDArray[Any]) -> str | None:
    """Say what is wrong with gradients; None where all are finite."""
    for each in gradients:
        if not are_finite(each):
            return flaw_of(*gradients)
    return None


def flaw_of(*gradients: npt.NDArray[Any]) -> str:
    """Say what is wrong with gradients of which some are not finite."""
    if any(np.isnan(each).any() for each in gradients):
        return NAN
    return INFINITE if any(np.isinf(each).any() for each in gradients) else TOO_LARGE


@final
class Refusals(Stateful):
    """The steps of one worker that came to nothing, because a gradient was not finite.

    The same rule under every strategy: such a gradient is applied by nobody, and an update that
    needs it is refused whole. A refused step is no update; its rows are not taken again.
    """

    def __init__(self, most_in_a_row: int = MOST_REFUSED) -> None:
        self.flaws: Counter[str] = Counter()
        self._most_in_a_row = most_in_a_row
        self._in_a_row = 0
        self._last_after = -1

    def note(self, flaw: str, *, after: int) -> None:
        """A step was refused, after so many updates of this worker's gradients.

        Raises `NotFinite` when too many in a row were. Of a step that was refused for another
        worker's gradient, that worker says so: it knows why.
        """
        self.flaws[flaw] += 1
        # Two refusals after the same update have no update between them.
        self._in_a_row = self._in_a_row + 1 if after == self._last_after else 1
        self._last_after = after
        if self._in_a_row >= self._most_in_a_row and flaw != OF_ANOTHER:
            raise NotFinite(
                f"{self._in_a_row} steps in a row were refused (most_refused = "
                f"{self._most_in_a_row}): {_CAUSES.get(flaw, flaw)}"
            )

    def table(self) -> dict[str, Any]:
        """Give all as plain values."""
        return {"refused": self.flaws.total(), "refused_because": dict(self.flaws)}

    def state(self) -> State:
        return {"flaws": dict(self.flaws), **attributes(self, "_in_a_row", "_last_after")}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            self.flaws = fields.counts("flaws")
            fields.attributes(self, "_in_a_row", "_last_after")


def cause_of(flaws: dict[str, int]) -> str:
    """Say what was wrong with most of the gradients that were refused."""
    own = {flaw: count for flaw, count in flaws.items() if flaw != OF_ANOTHER} or flaws
    worst = max(own, key=lambda flaw: own[flaw])
    return _CAUSES.get(worst, worst)
