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

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, final

from paceline.comm.allreduce.base import AllReduce, numpys_dtypes, slice_of
from paceline.comm.allreduce.mail import Mail
from paceline.comm.allreduce.small_ring import MOST_CHUNK_BYTES, SmallRing, different_tensors
from paceline.comm.allreduce.stream_ring import StreamRing
from paceline.comm.allreduce.streams import are_possible, open_streams
from paceline.comm.base import Message

if TYPE_CHECKING:
    from torch import Tensor

_log = logging.getLogger(__name__)

# A chunk travels in segments, each added and passed on while the next is on its way: a few, so that
# something is always on its way, and none so small that the calls it takes cost more than it does.
SEGMENT_BYTES: Final = 1 << 20
LEAST_SEGMENT_BYTES: Final = 1 << 17
SEGMENTS: Final = 4
# A large tensor goes round in parts. What has come and is yet to be passed on stays in the memory
# it came in, which is about a chunk: so many segments at most.
MOST_SEGMENTS: Final = 8
# How many more segments of a part a rank may have sent than received. Together with what it has
# sent ahead of the next part no more than a channel lets wait for a slow receiver, so that not all
# ranks can wait for room at once.
WINDOW: Final = 8
# For so many small tensors everything is kept prepared.
_MOST_PREPARED: Final = 16


@final
class RingAllReduce(AllReduce):
    """A ring over a channel, between seats named `worker0`, `worker1`, and so on."""

    def __init__(self, rank: int, names: Sequence[str], mail: Mail, epoch: int = 0) -> None:
        super().__init__(rank, len(names))
        self._names = names
        self._mail = mail
        mail.hang_up()  # of an earlier formation, in which somebody may still wait
        self._channel = mail.channel
        self._epoch = epoch
        self._next = names[(rank + 1) % len(names)]
        self._receive_next = partial(mail.receive_from, names[rank - 1], epoch)
        self._num_hops = 2 * (len(names) - 1)
        self._small_dtypes = numpys_dtypes()
        self._prepared: dict[int, SmallRing] = {}
        self._outgoing = _Outgoing()
        self._has_called = False
        self._streams: StreamRing | None = None
        # What follows the tensor that is reduced, if some of it was sent already.
        self._ahead: Tensor | None = None

    def _reduce(self, values: Tensor, divisor: int) -> None:
        assert self._ahead is None or self._ahead is values
        if (small := self._small(values)) is not None:
            small.reduce(divisor)
        elif (streams := self._streaming()) is not None:
            self._reduce_streaming(streams, values, divisor)
        else:
            self._reduce_parts(values, divisor)
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
        small = SmallRing(
            values,
            self.rank,
            self.num_ranks,
            outlet=partial(self._channel.outlet, self._next),
            receive=self._receive_next,
            epoch=self._epoch,
        )
        self._prepared[id(values)] = small
        return small

    def _streaming(self) -> StreamRing | None:
        """Give what reduces through connections of its own, where the ranks could make some.

        All ranks try when the first large tensor comes.
        """
        if not self._has_called:
            self._has_called = True
            self._streams = self._connected()
        return self._streams

    def _connected(self) -> StreamRing | None:
        if not are_possible(self._mail, self._names):
            return None
        streams = open_streams(self.rank, self._names, self._mail, self._epoch, self._all_agree)
        if streams is None:
            _log.warning("not all ranks could call the next one; mailboxes carry large tensors")
            return None
        self._mail.beside.callback(streams.close)
        return StreamRing(self.rank, self._names, self._mail, self._epoch, streams)

    def _all_agree(self, holds: bool) -> bool:
        return all(self.gather(holds))

    def _reduce_streaming(self, streams: StreamRing, values: Tensor, divisor: int) -> None:
        begun, self._ahead = self._ahead is values, None
        streams.reduce(self._parts(values), divisor, is_begun=begun, look_ahead=self._look_ahead)

    def _reduce_parts(self, values: Tensor, divisor: int) -> None:
        """Reduce part by part; the next is begun while the last of this one is still to come."""
        begun, self._ahead = self._ahead is values, None
        parts = self._parts(values)
        for index, part in enumerate(parts):
            for hop, _ in enumerate(self.communications(part, divisor, begun=begun)):
                if hop == self._num_hops - 2:  # all of this part has been passed on
                    following = parts[index + 1] if index + 1 < len(parts) else self._look_ahead()
                    begun = following is not None
                    if following is not None:
                        self._begin(following)

    def _look_ahead(self) -> Tensor | None:
        """Give the first part of the tensor that is reduced next, if it is known and large."""
        values = self.following()
        if values is None or not values.numel() or self._small(values) is not None:
            return None
        self._ahead = values
        return self._parts(values)[0]

    def _parts(self, values: Tensor) -> list[Tensor]:
        """Cut a large tensor into parts that go round one after the other."""
        most = self.num_ranks * MOST_SEGMENTS * SEGMENT_BYTES // values.element_size()
        num_parts = -(-values.numel() // most)
        return [values[slice_of(values.numel(), num_parts, each)] for each in range(num_parts)]

    def _chunk(self, values: Tensor, number: int) -> Tensor:
        return values[slice_of(values.numel(), self.num_ranks, number % self.num_ranks)]

    def _begin(self, values: Tensor) -> None:
        """Have this rank's own chunk sent."""
        for segment in _segments(self._chunk(values, self.rank)):
            self._outgoing.add(partial(self._channel.send, self._next, segment, self._epoch))

    def communications(
        self, values: Tensor, divisor: int, *, begun: bool = False
    ) -> Iterator[tuple[int, int]]:
        """Reduce, communication by communication; yields which chunk was passed on, which came."""
        outgoing, num_ranks = self._outgoing, self.num_ranks
        if not begun:
            self._begin(values)
        for hop in range(self._num_hops):
            came = self.rank - hop - 1
            for segment in _segments(self._chunk(values, came)):
                outgoing.send_some()
                message = self._receive(segment)
                self._merge(hop, segment, message.values, divisor)
                if hop < self._num_hops - 1:
                    outgoing.add(partial(self._channel.pass_on, self._next, message))
                outgoing.num_received += 1
            yield (came + 1) % num_ranks, came % num_ranks
        outgoing.send_all()

    def _merge(self, hop: int, segment: Tensor, received: Tensor, divisor: int) -> None:
        """Add what came, or keep it; a sum that is not whole yet only travels through here."""
        whole = self.num_ranks - 2
        if hop <= whole:
            received.add_(segment)
        if hop == whole and divisor > 1:
            received.div_(divisor)
        if hop >= whole:
            segment.copy_(received)

    def _receive(self, segment: Tensor) -> Message:
        message = self._receive_next()
        dtype = str(segment.dtype).removeprefix("torch.")
        if message.shape != tuple(segment.shape) or message.dtype != dtype:
            raise different_tensors(message, tuple(segment.shape), dtype)
        return message


@final
class _Outgoing:
    """What a rank has yet to send, in order, sent no faster than segments come in."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._num_sent = 0
        self.num_received = 0

    def add(self, send: Callable[[], None]) -> None:
        self._waiting.append(send)

    def send_some(self) -> None:
        """Send what the window has room for."""
        while self._waiting and self._num_sent < self.num_received + WINDOW:
            self._send()

    def send_all(self) -> None:
        """Send what is left, and count anew: not all ranks send as many as come to them."""
        while self._waiting:
            self._send()
        self._num_sent = self.num_received = 0

    def _send(self) -> None:
        self._waiting.popleft()()
        self._num_sent += 1


def _segments(chunk: Tensor) -> Iterator[Tensor]:
    wanted = max(LEAST_SEGMENT_BYTES, min(SEGMENT_BYTES, -(-chunk.nbytes // SEGMENTS)))
    length = wanted // chunk.element_size()
    for start in range(0, chunk.numel(), length):
        yield chunk[start : start + length]
