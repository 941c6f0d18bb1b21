"""The algorithm itself, step by step, and the bytes it moves."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from paceline.comm.allreduce.base import AllReduce, slice_of
from paceline.comm.allreduce.mail import Mail
from paceline.comm.allreduce.overlapped import Overlapped
from paceline.comm.allreduce.ring import SEGMENT_BYTES, RingAllReduce
from paceline.comm.base import Channel, Message
from paceline.comm.memory import MemoryChannel, boxes_for
from paceline.testing.ranks import RankFailed, reduce_together
from tests.comm.lines import line_of_a_seat

# Figure 2.7 of the report: three workers with three chunks each, here of one value.
START = ([1, 2, 3], [10, 20, 30], [100, 200, 300])
# What each holds after each of the four communications, worked out by hand. A sum that is not yet
# of all three is not put in its place: it travels on in the message that it came in.
WALK = (
    # scatter-reduce: what comes is added
    ([1, 2, 3], [10, 20, 30], [100, 200, 300]),
    ([1, 222, 3], [10, 20, 333], [111, 200, 300]),
    # all-gather: what comes replaces
    ([111, 222, 3], [10, 222, 333], [111, 200, 333]),
    ([111, 222, 333], [111, 222, 333], [111, 222, 333]),
)
# Which chunk each worker passed on, and which came to it.
TALK = (
    ((0, 2), (1, 0), (2, 1)),
    ((2, 1), (0, 2), (1, 0)),
    ((1, 0), (2, 1), (0, 2)),
    ((0, 2), (1, 0), (2, 1)),
)


# And what was in it.
SENT = (
    (1, 20, 300),
    (303, 11, 220),
    (222, 333, 111),
    (111, 222, 333),
)


class Recording(Channel):
    """Another channel, and what was sent through it."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel, self.sent = channel, []

    def send(self, to: str, values: torch.Tensor, tag: int = 0) -> None:
        self.sent += values.tolist()
        self.channel.send(to, values, tag)

    def receive(self) -> Message:
        return self.channel.receive()

    def close(self) -> None:
        self.channel.close()


def test_it_walks_as_in_the_figure():
    names = ["worker0", "worker1", "worker2"]
    boxes, ends = boxes_for(names), [line_of_a_seat() for _ in names]

    def go_round(rank: int) -> list[tuple[list[float], tuple[int, int], float]]:
        line = ends[rank][1]
        channel = Recording(MemoryChannel(names[rank], boxes, line))
        values = torch.tensor(START[rank], dtype=torch.float32)
        ring = RingAllReduce(rank, names, Mail(channel))
        walk = [(values.tolist(), talked) for talked in ring.communications(values, 1)]
        return [(*each, sent) for each, sent in zip(walk, channel.sent, strict=True)]

    with ThreadPoolExecutor(3) as threads:
        walks = list(threads.map(go_round, range(3)))
    for pair in ends:
        for end in pair:
            end.close()
    held, talk, sent = (
        tuple(zip(*([each[what] for each in walk] for walk in walks), strict=True))
        for what in range(3)
    )
    assert (held, talk, sent) == (WALK, TALK, SENT)


def count_bytes(all_reduce: AllReduce) -> list[list[int]]:
    counted = []
    for size in (840, 840 * 1000, 1001):  # 840 is divisible by all numbers up to 8
        before = all_reduce.sent_bytes, all_reduce.received_bytes
        all_reduce.reduce(torch.ones(size))
        counted.append([all_reduce.sent_bytes - before[0], all_reduce.received_bytes - before[1]])
    return counted


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 5, 6, 8])
def test_every_worker_sends_two_times_n_minus_1_over_n_of_the_bytes(num_ranks: int):
    for rank, counted in enumerate(reduce_together("ring", num_ranks, count_bytes)):
        for size, both in zip((840, 840_000), counted, strict=False):
            exactly = 2 * (num_ranks - 1) * size * 4 // num_ranks
            assert both == [exactly, exactly]
        # Not divisible: all chunks but one, twice; which one depends on the rank.
        chunks = [slice_of(1001, num_ranks, each) for each in range(num_ranks)]
        lengths = [chunk.stop - chunk.start for chunk in chunks]
        kept = lengths[(rank + 1) % num_ranks] + lengths[(rank + 2) % num_ranks]
        assert counted[2][0] == 4 * (2 * 1001 - kept)


def many_segments(all_reduce: AllReduce) -> None:
    """Far more segments than the window, or a channel, lets wait: they go round in parts."""
    values = torch.ones(60 * all_reduce.num_ranks * SEGMENT_BYTES // 4 // 8)
    all_reduce.reduce(values)
    assert bool((values == all_reduce.num_ranks).all())


def test_large_tensors_do_not_lock_the_ring(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("paceline.comm.allreduce.ring.SEGMENT_BYTES", SEGMENT_BYTES // 8)
    reduce_together("ring", 3, many_segments)


def several_in_a_row(all_reduce: AllReduce) -> None:
    """Large and small, in one part and in several, even and uneven: some are sent ahead."""
    sizes = [3 * SEGMENT_BYTES, 7, 100_003, 200_001, 0, 5 * SEGMENT_BYTES + 1, 300_000, 12]
    # No two positions near each other, tensors or rounds have equal values.
    patterns = [torch.arange(size) % 9973 + 10_000.0 * n for n, size in enumerate(sizes)]
    tensors = [pattern.clone() for pattern in patterns]
    overlapped = Overlapped(all_reduce)
    for turn in range(3):
        for pattern, values in zip(patterns, tensors, strict=True):
            values.copy_(pattern + turn + 2 * all_reduce.rank)
        for values in tensors[:5]:
            overlapped.begin(values)
        overlapped.finish(tensors[5:])
        for pattern, values in zip(patterns, tensors, strict=True):
            assert torch.equal(values, pattern + turn + all_reduce.num_ranks - 1)
    overlapped.close()


@pytest.mark.parametrize("num_ranks", [2, 3, 5])
def test_tensors_that_follow_each_other_keep_apart(num_ranks: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("paceline.comm.allreduce.ring.SEGMENT_BYTES", SEGMENT_BYTES // 8)
    reduce_together("ring", num_ranks, several_in_a_row)


def reduce_different_sizes(all_reduce: AllReduce) -> None:
    all_reduce.reduce(torch.ones(30 + 30 * all_reduce.rank))


def test_ranks_that_reduce_different_tensors_are_told():
    with pytest.raises(RankFailed, match="ranks reduce different tensors"):
        reduce_together("ring", 2, reduce_different_sizes)
