"""What every all-reduce must do, tried in real processes."""

import os
import signal
import time
import zlib

import pytest
import torch

from paceline.comm.allreduce.base import AllReduce
from paceline.comm.allreduce.overlapped import Overlapped
from paceline.comm.allreduce.shared import SLOT_BYTES
from paceline.testing.ranks import KINDS, AllReduceKind, RankFailed, reduce_together

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64)
# Nothing, one value, a prime, not divisible by any number of ranks tried, more than any buffer.
SIZES = (0, 1, 7, 10_007, 2 * 3 * 4 * 5 * 7 * 8 + 1, SLOT_BYTES // 4 + 3, 2 * SLOT_BYTES // 4 + 5)

# Two that are tried alone already, one below the other.
_JOINED: AllReduceKind = "hierarchical-halving"
every_kind = pytest.mark.parametrize(
    "kind",
    [pytest.param(each, marks=[pytest.mark.thorough] * (each == _JOINED)) for each in KINDS],
)


def whole_numbers(rank: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """Small enough to be added without rounding in every type."""
    return (torch.arange(size) * (rank + 3) % 17).to(dtype)


def expected(num_ranks: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    return sum(
        (whole_numbers(rank, size, dtype) for rank in range(num_ranks)),
        start=torch.zeros(size, dtype=dtype),
    )


def sum_everything(all_reduce: AllReduce) -> None:
    rank, num_ranks = all_reduce.rank, all_reduce.num_ranks
    for dtype in DTYPES:
        large_too = dtype is torch.float32 and num_ranks <= 3  # the others take no other path
        for size in SIZES if large_too else SIZES[:5]:
            values = whole_numbers(rank, size, dtype)
            all_reduce.reduce(values)
            total = expected(num_ranks, size, dtype)
            assert torch.equal(values, total), (dtype, size)
            if dtype.is_floating_point:
                values = whole_numbers(rank, size, dtype)
                all_reduce.reduce(values, mean=True)
                assert torch.equal(values, total / num_ranks), (dtype, size)


@pytest.mark.parametrize(
    "num_ranks",
    [1, 2, 3, *(pytest.param(each, marks=pytest.mark.thorough) for each in (4, 5, 6, 7)), 8],
)
@every_kind
def test_every_rank_gets_the_sum_and_the_mean(kind: AllReduceKind, num_ranks: int):
    reduce_together(kind, num_ranks, sum_everything)


def sum_what_is_allocated(all_reduce: AllReduce) -> None:
    size = 500_001
    values = all_reduce.allocate(size, torch.float32)
    for part in (slice(0, size), slice(17, size - 3), slice(100, 105)):
        values.copy_(whole_numbers(all_reduce.rank, size, torch.float32))
        all_reduce.reduce(values[part])
        total = expected(all_reduce.num_ranks, size, torch.float32)[part]
        assert torch.equal(values[part], total)
        outside = torch.cat((values[: part.start], values[part.stop :]))
        mine = whole_numbers(all_reduce.rank, size, torch.float32)
        assert torch.equal(outside, torch.cat((mine[: part.start], mine[part.stop :])))


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5])
@every_kind
def test_memory_it_allocated_is_reduced_in_place(kind: AllReduceKind, num_ranks: int):
    reduce_together(kind, num_ranks, sum_what_is_allocated, room_bytes=4 * 500_001)


def reduce_random_values(all_reduce: AllReduce) -> list[int]:
    """The hashes of results that were rounded: any other order of adding would show."""
    hashes = []
    for size in (10, 10_007, 300_000, SLOT_BYTES // 4 + 3):
        values = torch.randn(size, generator=torch.Generator().manual_seed(all_reduce.rank))
        all_reduce.reduce(values, mean=True)
        hashes.append(zlib.crc32(values.numpy().data))
    return hashes


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
@every_kind
def test_all_ranks_get_the_same_bits_every_time(kind: AllReduceKind, num_ranks: int):
    once = reduce_together(kind, num_ranks, reduce_random_values)
    again = reduce_together(kind, num_ranks, reduce_random_values)
    assert once == again
    assert all(each == once[0] for each in once)


def overwrite_at_once(all_reduce: AllReduce) -> None:
    """Ranks are slow at different places, and spoil their buffers while others still work."""
    for number in range(30):
        size = (1000, 40_000, 300_000)[number % 3]
        values = torch.full((size,), float(number + all_reduce.rank))
        if (number + all_reduce.rank) % 4 == 0:
            time.sleep(0.002)
        all_reduce.reduce(values)
        result = values.clone()
        values.fill_(-1e6)
        wanted = sum(number + rank for rank in range(all_reduce.num_ranks))
        assert torch.equal(result, torch.full((size,), float(wanted))), number


@every_kind
def test_a_buffer_may_be_overwritten_the_instant_the_call_returns(kind: AllReduceKind):
    reduce_together(kind, 3, overwrite_at_once)


def many_in_flight(all_reduce: AllReduce) -> None:
    overlapped = Overlapped(all_reduce)
    for _ in range(3):
        tensors = [
            torch.full((1 + 3000 * number,), float(number * (all_reduce.rank + 1)))
            for number in range(20)
        ]
        for values in tensors[:15]:
            overlapped.begin(values)
        finished = overlapped.finish(tensors[15:])
        assert [each.values.numel() for each in finished] == [each.numel() for each in tensors]
        share = sum(range(1, all_reduce.num_ranks + 1)) / all_reduce.num_ranks
        for number, each in enumerate(finished):
            torch.testing.assert_close(
                each.values, torch.full_like(each.values, number * share), rtol=1e-6, atol=0
            )
        times = [moment for each in finished for moment in (each.began_ns, each.ended_ns)]
        assert times == sorted(times)
    overlapped.close()


@every_kind
def test_many_in_flight_end_in_the_order_they_were_begun(kind: AllReduceKind):
    reduce_together(kind, 3, many_in_flight)


def broadcast_and_gather(all_reduce: AllReduce) -> None:
    values = torch.arange(1000.0) * (all_reduce.rank + 1)
    all_reduce.broadcast(values)
    assert torch.equal(values, torch.arange(1000.0))
    assert all_reduce.gather(all_reduce.rank * 2**40) == [
        rank * 2**40 for rank in range(all_reduce.num_ranks)
    ]


@pytest.mark.parametrize("num_ranks", [1, 3])
@every_kind
def test_rank_0_tells_all_and_all_tell_each_other(kind: AllReduceKind, num_ranks: int):
    reduce_together(kind, num_ranks, broadcast_and_gather)


def die_in_the_middle(all_reduce: AllReduce) -> None:
    values = torch.ones(3_000_000)
    all_reduce.reduce(values)
    if all_reduce.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began_s = time.monotonic()
    try:
        all_reduce.reduce(values)
    finally:
        assert time.monotonic() - began_s < 60


@pytest.mark.parametrize("num_ranks", [2, 4])
@every_kind
def test_a_rank_that_dies_is_named_on_every_other(kind: AllReduceKind, num_ranks: int):
    with pytest.raises(RankFailed) as raised:
        reduce_together(kind, num_ranks, die_in_the_middle)
    told = str(raised.value).split("; ")
    assert "worker1 died" in told
    others = {each for each in told if each != "worker1 died"}
    assert others == {
        f"worker{rank} Aborted: worker1 died" for rank in range(num_ranks) if rank != 1
    }


def reduce_what_cannot_be(all_reduce: AllReduce) -> None:
    with pytest.raises(ValueError, match="expected a contiguous vector"):
        all_reduce.reduce(torch.zeros(3, 3))
    with pytest.raises(ValueError, match="expected a contiguous vector"):
        all_reduce.reduce(torch.zeros(6)[::2])


@every_kind
def test_what_is_not_a_vector_is_refused(kind: AllReduceKind):
    reduce_together(kind, 1, reduce_what_cannot_be)
