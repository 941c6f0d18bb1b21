"""The seam between strategies and the ways a sum over all ranks comes about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class AllReduce(ABC):
    """Replaces a tensor, on every rank, by its sum over all ranks.

    All ranks reduce tensors of the same size and type in the same order, and get the same bits.
    When a call returns, the tensor is the caller's again: overwriting it changes nobody's result.
    Used by one thread at a time. A wait ends with `paceline.errors.Aborted`, which names the
    cause, when another rank is gone: never a hang.
    """

    sent_bytes: int = 0
    """Bytes of values sent so far, as if each travelled, also where memory is shared."""
    received_bytes: int = 0

    def __init__(self, rank: int, num_ranks: int) -> None:
        self.rank = rank
        self.num_ranks = num_ranks
        self.following: Callable[[], Tensor | None] = _nothing
        """Gives the tensor that is reduced next, if that is certain by then and its values are
        there: an implementation may send some of it ahead."""
        self.meanwhile: Callable[[], None] | None = None
        """What an implementation may call while it waits for other ranks, on the caller's thread.
        Set only by who reduces on one thread."""

    @final
    def reduce(self, values: Tensor, *, mean: bool = False) -> None:
        """Replace `values` by their sum over all ranks, or by their mean."""
        if values.dim() != 1 or not values.is_contiguous():
            raise ValueError(f"expected a contiguous vector, not shape {tuple(values.shape)}")
        if self.num_ranks > 1 and values.numel():
            self._reduce(values, self.num_ranks if mean else 1)

    @abstractmethod
    def _reduce(self, values: Tensor, divisor: int) -> None:
        """Replace values that are there by their sum over several ranks, divided by `divisor`."""

    def allocate(self, num_values: int, dtype: torch.dtype) -> Tensor:
        """Give zeros that are reduced at the least cost. Asked once, for the same size by all."""
        import torch

        return torch.zeros(num_values, dtype=dtype)

    @final
    def broadcast(self, values: Tensor) -> None:
        """Replace `values` by those of rank 0."""
        if self.rank != 0:
            values.zero_()
        self.reduce(values)

    @final
    def gather(self, number: int) -> list[int]:
        """Give every rank's number to all, in the order of ranks."""
        import torch

        numbers = torch.zeros(self.num_ranks, dtype=torch.int64)
        numbers[self.rank] = number
        self.reduce(numbers)
        return [int(each) for each in numbers.tolist()]


def _nothing() -> None:
    return None


def slice_of(num_values: int, num_ranks: int, rank: int) -> slice:
    """Cut a vector into one chunk a rank, as equal as can be."""
    return slice(num_values * rank // num_ranks, num_values * (rank + 1) // num_ranks)


def numpys_dtypes() -> frozenset[torch.dtype]:
    """Give the types that numpy, too, can add up: of a few values faster than torch."""
    import torch

    return frozenset({torch.float16, torch.float32, torch.float64, torch.int64})
