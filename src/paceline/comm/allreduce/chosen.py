"""An all-reduce whose algorithm was chosen by measurement, and may be set by what was before."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from paceline.comm.allreduce.base import AllReduce
from paceline.comm.allreduce.choosing import Chosen

if TYPE_CHECKING:
    from torch import Tensor


@final
class ChosenAllReduce(AllReduce):
    """One of two ways between the same ranks; all ranks change it between the same two tensors.

    Both tell messages apart by their sender, so who is ahead may use the other one already.
    """

    def __init__(self, ring: AllReduce, halving: AllReduce) -> None:
        super().__init__(ring.rank, ring.num_ranks)
        self._ways = {"ring": ring, "halving": halving}
        self._used = ring

    def use(self, algorithm: Chosen) -> None:
        """Reduce this way from now on."""
        self._used = self._ways[algorithm]

    def _reduce(self, values: Tensor, divisor: int) -> None:
        used = self._used
        used.following = self.following
        used.reduce(values, mean=divisor > 1)
        self.sent_bytes, self.received_bytes = used.sent_bytes, used.received_bytes
