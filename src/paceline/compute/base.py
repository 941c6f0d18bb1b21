"""The seam between a worker's loop and what takes the time of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Compute(ABC):
    """Fills a replica's gradients from a batch."""

    @abstractmethod
    def gradients(self, batch: Sequence[Tensor]) -> float:
        """Compute the gradients of one batch; returns its loss."""
