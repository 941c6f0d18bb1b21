"""Whether gradients can be applied at all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt


def are_finite(gradients: npt.NDArray[Any]) -> bool:
    """Whether all are numbers; so large that their squares overflow, they are of no use either.

    One product is far cheaper than looking at each value, and numpy's than torch's.
    """
    try:
        return math.isfinite(gradients.dot(gradients))
    except RuntimeWarning:  # numpy's word for an overflow, where warnings are errors
        return False
