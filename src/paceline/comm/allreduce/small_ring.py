"""The way of one small tensor around the ring, which is often the same step after step.

It is the algorithm of `ring`, with everything prepared that can be, and through numpy: what calls
into torch take before they begin would be more than sending and adding so few values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import numpy as np

from paceline.comm.allreduce.base import slice_of
from paceline.comm.base import Message

if TYPE_CHECKING:
    from torch import Tensor

MOST_CHUNK_BYTES: Final = 1 << 16


@final
class SmallRing:
    """Reduces one tensor, whose chunks are each small and none of them empty."""

    def __init__(
        self,
        values: Tensor,
        rank: int,
        num_ranks: int,
        *,
        outlet: Callable[[Tensor], Callable[[int], None]],
        receive: Callable[[], Message],
        epoch: int,
    ) -> None:
        """`outlet` is to the next rank, `receive` from the one before."""
        self.values = values
        chunks = [values[slice_of(values.numel(), num_ranks, each)] for each in range(num_ranks)]
        self._receive = receive
        self._epoch = epoch
        self._dtype = str(values.dtype).removeprefix("torch.")
        outlets = [outlet(chunk) for chunk in chunks]
        arrays = [chunk.detach().numpy() for chunk in chunks]
        # For each communication: what passes a chunk on, and the chunk that comes.
        hops = [
            (outlets[(rank - hop) % num_ranks], arrays[(rank - hop - 1) % num_ranks])
            for hop in range(2 * (num_ranks - 1))
        ]
        self._whole = hops[num_ranks - 2][1]  # what comes last then is a chunk of the whole sum
        self._scatter_reduce, self._all_gather = hops[: num_ranks - 1], hops[num_ranks - 1 :]

    def reduce(self, divisor: int) -> None:
        epoch = self._epoch
        with np.errstate(all="ignore"):  # what is not finite is the caller's to judge
            for pass_on, chunk in self._scatter_reduce:
                pass_on(epoch)
                np.add(chunk, self._array(self._receive(), len(chunk)), out=chunk)
            if divisor > 1:
                np.divide(self._whole, divisor, out=self._whole)
        for pass_on, chunk in self._all_gather:
            pass_on(epoch)
            chunk[:] = self._array(self._receive(), len(chunk))

    def _array(self, message: Message, num_values: int) -> np.ndarray[tuple[int], np.dtype]:
        if message.shape != (num_values,) or message.dtype != self._dtype:
            raise different_tensors(message, (num_values,), self._dtype)
        return np.frombuffer(message.memory, self._dtype)


def different_tensors(message: Message, shape: tuple[int, ...], dtype: str) -> ValueError:
    """The error of a rank that got what it did not expect."""
    return ValueError(
        f"ranks reduce different tensors: {message.shape} of {message.dtype} arrived, "
        f"expected {shape} of {dtype}"
    )
