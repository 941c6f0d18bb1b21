"""All-reduce in two storeys: within each host, then between one leader a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from paceline.comm.allreduce.base import AllReduce

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@final
class HierarchicalAllReduce(AllReduce):
    """Only leaders, the first rank of each host, send anything between hosts."""

    def __init__(
        self, rank: int, num_ranks: int, within: AllReduce, between: AllReduce | None
    ) -> None:
        """`between` is for the leader; the other ranks of the host have none."""
        super().__init__(rank, num_ranks)
        self._within = within
        self._between = between

    def allocate(self, num_values: int, dtype: torch.dtype) -> Tensor:
        return self._within.allocate(num_values, dtype)

    def _reduce(self, values: Tensor, divisor: int) -> None:
        self._within.reduce(values)
        if self._between is not None:
            self._between.reduce(values)
            if divisor > 1:
                values.div_(divisor)
        self._within.broadcast(values)
        self.sent_bytes = self._count("sent_bytes")
        self.received_bytes = self._count("received_bytes")

    def _count(self, which: str) -> int:
        both = [each for each in (self._within, self._between) if each is not None]
        return sum(int(getattr(each, which)) for each in both)
