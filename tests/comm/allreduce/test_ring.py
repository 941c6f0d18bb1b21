"""The algorithm itself, step by step, and the bytes it moves."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from paceline.comm.allreduce.base import AllReduce, slice_of
from paceline.comm.allreduce.ring import SEGMENT_BYTES, RingAllReduce
from paceline.comm.line import Line, SeatLine
from paceline.comm.memory import MemoryChannel, boxes_for
from paceline.testing.ranks import RankFailed, reduce_together

# Figure 2.7 of the report: three workers with three chunks each, here of one value.
START = ([1, 2, 3], [10, 20, 30], [100, 200, 300])
# What each holds after each of the four communications, worked out by hand.
WALK = (
    # scatter-reduce: what comes is added
    ([1, 2, 303], [11, 20, 30], [100, 220, 300]),
    ([1, 222, 303], [11, 20, 333], [111, 220, 300]),
    # all-gather: what comes replaces
    ([111, 222, 303], [11, 222, 333], [111, 220, 333]),
    ([111, 222, 333], [111, 222, 333], [111, 222, 333]),
)
# Which chunk each worker passed on, and which came to it.
TALK = (
    ((0, 2), (1, 0), (2, 1)),
    ((2, 1), (0, 2), (1, 0)),
    ((1, 0), (2, 1), (0, 2)),
    ((0, 2), (1, 0), (2, 1)),
)


def test_it_walks_as_in_the_figure():
    names = ["worker0", "worker1", "worker2"]
    boxes, ends = boxes_for(names), [Line.pair() for _ in names]

    def go_round(rank: int) -> list[tuple[list[float], tuple[int, int]]]:
        channel = MemoryChannel(names[rank], boxes, SeatLine(Line(ends[rank][0])))
        values = torch.tensor(START[rank], dtype=torch.float32)
        ring = RingAllReduce(rank, names, channel)
        return [(values.tolist(), talked) for talked in ring.communications(values, 1)]

    with ThreadPoolExecutor(3) as threads:
        walks = list(threads.map(go_round, range(3)))
    for pair in ends:
        for end in pair:
            end.close()
    assert tuple(zip(*([held for held, _ in walk] for walk in walks), strict=True)) == WALK
    assert tuple(zip(*([talk for _, talk in walk] for walk in walks), strict=True)) == TALK


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
    """A chunk of far more segments than the window, or a channel, lets wait."""
    values = torch.ones(60 * all_reduce.num_ranks * SEGMENT_BYTES // 4 // 8)
    all_reduce.reduce(values)
    assert bool((values == all_reduce.num_ranks).all())


def test_long_chunks_do_not_lock_the_ring(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("paceline.comm.allreduce.ring.SEGMENT_BYTES", SEGMENT_BYTES // 8)
    reduce_together("ring", 3, many_segments)


def reduce_different_sizes(all_reduce: AllReduce) -> None:
    all_reduce.reduce(torch.ones(30 + 30 * all_reduce.rank))


def test_ranks_that_reduce_different_tensors_are_told():
    with pytest.raises(RankFailed, match="ranks reduce different tensors"):
        reduce_together("ring", 2, reduce_different_sizes)
