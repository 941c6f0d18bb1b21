"""All-reduce around a ring: every rank talks to its two neighbours only.

Rank r sends to rank r + 1 and receives from rank r - 1. With N ranks:

- the values are split into N chunks;
- scatter-reduce: N - 1 times each rank passes on a chunk and adds the one it receives to its own;
  then every rank holds one chunk of the whole sum;
- all-gather: N - 1 times each rank passes on a finished chunk and keeps the one it receives;
- merged, the chunks are the sum; divided by N, the mean.

So every rank sends 2 (N - 1) / N of the bytes, however many ranks there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, final

from paceline.comm.allreduce.base import AllReduce, numpys_dtypes, slice_of
from paceline.comm.allreduce.small_ring import MOST_CHUNK_BYTES, SmallRing, different_tensors
from paceline.comm.base import Channel

if TYPE_CHECKING:
    from torch import Tensor

# A chunk travels in segments, each added and passed on while the next is on its way.
SEGMENT_BYTES: Final = 1 << 20
# How many more segments a rank may have sent than received. Fewer than a channel lets wait for a
# slow receiver, so that not all ranks can wait for room at once.
WINDOW: Final = 8
# For so many small tensors everything is kept prepared.
_MOST_PREPARED: Final = 16


@final
class RingAllReduce(AllReduce):
    """A ring over a channel, between seats named `worker0`, `worker1`, and so on."""

    def __init__(self, rank: int, names: list[str], channel: Channel) -> None:
        super().__init__(rank, len(names))
        self._channel = channel
        self._next = names[(rank + 1) % len(names)]
        self._small_dtypes = numpys_dtypes()
        self._prepared: dict[int, SmallRing] = {}

    def _reduce(self, values: Tensor, divisor: int) -> None:
        if (small := self._small(values)) is not None:
            small.reduce(divisor)
        else:
            for _ in self.communications(values, divisor):
                pass
        self.sent_bytes = self._channel.sent_bytes
        self.received_bytes = self._channel.received_bytes

    def _small(self, values: Tensor) -> SmallRing | None:
        """Give what is prepared for a tensor, if it is a small one."""
        prepared = self._prepared.get(id(values))
        if prepared is not None:  # it holds the tensor, so no other has its id
            return prepared
        is_small = values.nbytes <= MOST_CHUNK_BYTES * self.num_ranks
        if (
            not is_small
            or values.numel() < self.num_ranks
            or values.dtype not in self._small_dtypes
        ):
            return None
        if len(self._prepared) == _MOST_PREPARED:
            self._prepared.clear()
        small = SmallRing(values, self.rank, self.num_ranks, channel=self._channel, to=self._next)
        self._prepared[id(values)] = small
        return small

    def communications(self, values: Tensor, divisor: int) -> Iterator[tuple[int, int]]:
        """Reduce, communication by communication; yields which chunk was passed on, which came."""
        rank, num_ranks = self.rank, self.num_ranks
        chunks = [values[slice_of(len(values), num_ranks, each)] for each in range(num_ranks)]
        outgoing = _Outgoing(self._channel, self._next)
        outgoing.add_all(_segments(chunks[rank]))
        num_hops = 2 * (num_ranks - 1)
        for hop in range(num_hops):
            came = (rank - hop - 1) % num_ranks
            for segment in _segments(chunks[came]):
                outgoing.send_some()
                received = self._receive(segment)
                if hop < num_ranks - 1:
                    segment.add_(received)
                else:
                    segment.copy_(received)
                if hop == num_ranks - 2 and divisor > 1:
                    segment.div_(divisor)
                if hop < num_hops - 1:
                    outgoing.add(segment)
                outgoing.num_received += 1
            yield (came + 1) % num_ranks, came
        outgoing.send_all()

    def _receive(self, segment: Tensor) -> Tensor:
        message = self._channel.receive()
        received = message.values
        if received.shape != segment.shape or received.dtype != segment.dtype:
            raise different_tensors(message, tuple(segment.shape), str(segment.dtype))
        return received


@final
class _Outgoing:
    """The segments a rank has yet to pass on, in order, sent no faster than they come in."""

    def __init__(self, channel: Channel, to: str) -> None:
        self._channel = channel
        self._to = to
        self._waiting: deque[Tensor] = deque()
        self._num_sent = 0
        self.num_received = 0

    def add(self, segment: Tensor) -> None:
        self._waiting.append(segment)

    def add_all(self, segments: Iterator[Tensor]) -> None:
        self._waiting.extend(segments)

    def send_some(self) -> None:
        """Send what the window has room for."""
        while self._waiting and self._num_sent < self.num_received + WINDOW:
            self._send()

    def send_all(self) -> None:
        while self._waiting:
            self._send()

    def _send(self) -> None:
        # The channel copies what it cannot send at once, so the segment may change from here on.
        self._channel.send(self._to, self._waiting.popleft())
        self._num_sent += 1


def _segments(chunk: Tensor) -> Iterator[Tensor]:
    length = SEGMENT_BYTES // chunk.element_size()
    for start in range(0, chunk.numel(), length):
        yield chunk[start : start + length]
