"""All-reduce by recursive halving and doubling: few hops, for small tensors on many ranks.

With N ranks, P the largest power of two among 1 to N:

- each of the N - P ranks too many hands its values to a neighbour, which adds them to its own;
- halving: log2 P times each of the P ranks exchanges half of what it still adds up with another,
  whose number differs in one bit; then every one holds a P-th of the whole sum;
- doubling: the same the other way round, each time with twice as many finished values;
- the ranks that handed theirs over get the sum.

So there are 2 log2 P hops, and two more unless N is a power of two, where a ring has 2 (N - 1).
Every rank of a power of two sends as many bytes as in a ring.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, final

import numpy as np

from paceline.comm.allreduce.base import AllReduce, numpys_dtypes, slice_of
from paceline.comm.allreduce.hops import Hop, hops_of, largest_power
from paceline.comm.allreduce.mail import Mail
from paceline.comm.allreduce.small_ring import different_tensors
from paceline.comm.base import Message

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# A larger tensor is reduced part by part, so that no message is larger than half of this.
_PART_BYTES: Final = 1 << 23
# For so many tensors everything is kept prepared.
_MOST_PREPARED: Final = 16


@final
class HalvingAllReduce(AllReduce):
    """Halving and doubling over a channel, between seats named `worker0`, `worker1`, and so on."""

    def __init__(self, rank: int, names: Sequence[str], mail: Mail, epoch: int = 0) -> None:
        super().__init__(rank, len(names))
        self._names = names
        self._mail = mail
        self._epoch = epoch
        self._hops = hops_of(rank, len(names)) if len(names) > 1 else []
        self._array_dtypes = numpys_dtypes()
        self._prepared: dict[int, tuple[Tensor, list[_Part]]] = {}

    def _reduce(self, values: Tensor, divisor: int) -> None:
        for part in self._parts(values):
            self._carry_out(part, divisor)
        self.sent_bytes = self._mail.channel.sent_bytes
        self.received_bytes = self._mail.channel.received_bytes

    def _parts(self, values: Tensor) -> list[_Part]:
        """Give what is prepared for a tensor, which is often the same step after step."""
        prepared = self._prepared.get(id(values))
        if prepared is not None:  # it holds the tensor, so no other has its id
            return prepared[1]
        count = values.numel()
        num_parts = -(-values.nbytes // _PART_BYTES)
        cut = [values[slice_of(count, num_parts, each)] for each in range(num_parts)]
        if len(self._prepared) == _MOST_PREPARED:
            self._prepared.clear()
        parts = [self._part(each) for each in cut]
        self._prepared[id(values)] = values, parts
        return parts

    def _part(self, values: Tensor) -> _Part:
        power = largest_power(self.num_ranks)

        def stretch(chunks: range) -> Tensor:
            first = slice_of(values.numel(), power, chunks.start).start
            return values[first : slice_of(values.numel(), power, chunks.stop).start]

        kept = [hop.takes for hop in self._hops if hop.adds]
        return _Part(
            [self._transfer(hop, stretch(hop.sends), stretch(hop.takes)) for hop in self._hops],
            stretch(kept[-1]),
        )

    def _transfer(self, hop: Hop, sent: Tensor, taken: Tensor) -> _Transfer:
        """Prepare a hop; of a tensor of fewer values than ranks some hops have nothing to carry."""
        partner = self._names[hop.partner]
        return _Transfer(
            self._mail.channel.outlet(partner, sent) if sent.numel() else None,
            partial(self._mail.receive_from, partner, self._epoch) if taken.numel() else None,
            _merger(taken, self._array_dtypes, adds=hop.adds),
            hop.adds,
        )

    def _carry_out(self, part: _Part, divisor: int) -> None:
        adds_on, epoch = True, self._epoch
        with np.errstate(all="ignore"):  # what is not finite is the caller's to judge
            for send, receive, merge, adds in part.transfers:
                if adds_on and not adds:
                    adds_on = False
                    if divisor > 1:
                        part.finished.div_(divisor)
                if send is not None:
                    send(epoch)
                if receive is not None:
                    merge(receive())


def _merger(
    taken: Tensor, array_dtypes: Collection[torch.dtype], *, adds: bool
) -> Callable[[Message], None]:
    """Prepare what becomes of a message: by numpy where it knows the dtype, which begins sooner."""
    dtype, shape = str(taken.dtype).removeprefix("torch."), tuple(taken.shape)

    def checked(message: Message) -> Message:
        if message.shape != shape or message.dtype != dtype:
            raise different_tensors(message, shape, dtype)
        return message

    if taken.dtype not in array_dtypes:
        merge = taken.add_ if adds else taken.copy_
        return lambda message: _ignored(merge(checked(message).values))
    array = taken.detach().numpy()

    def merge_array(message: Message) -> None:
        came = np.frombuffer(checked(message).memory, dtype)
        if adds:
            np.add(array, came, out=array)
        else:
            array[:] = came

    return merge_array


def _ignored(_: object) -> None:
    return None


class _Transfer(NamedTuple):
    """A hop of one tensor, prepared."""

    send: Callable[[int], None] | None
    """None where there is nothing to send."""
    receive: Callable[[], Message] | None
    merge: Callable[[Message], None]
    adds: bool


class _Part(NamedTuple):
    """A tensor, or a part of a large one: how it travels, and what of it this rank finishes."""

    transfers: list[_Transfer]
    finished: Tensor
