"""Rows that stay in their files: the same for any number of workers, in bounded memory."""

import dataclasses
import threading
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
import torch

from paceline.errors import DataError
from paceline.workloads.data.stream import Block, Stream, prepared
from paceline.workloads.order import Order

LINE = "{:05d}\n"
NUM_ROWS = 1000


class Lines(Stream[bytes]):
    """Numbers, one a line; remembers what was read."""

    def __init__(self, blocks: Sequence[Block], **options):
        super().__init__(blocks, **options)
        self.was_read: list[Block] = []

    def read(self, block: Block) -> Sequence[bytes]:
        self.was_read.append(block)
        with block.path.open("rb") as file:
            file.seek(block.offset)
            return file.read(block.num_bytes).splitlines()

    def decode(self, rows: Sequence[bytes], numbers: Sequence[int]) -> list[torch.Tensor]:
        assert len(numbers) == len(rows)
        for row in rows:
            if not row.isdigit():
                raise DataError(f"not a number: {row!r}")
        return [torch.tensor([int(row) for row in rows])]


@pytest.fixture
def blocks(tmp_path: Path) -> list[Block]:
    """Three files of 400, 400 and 200 rows, in blocks of 64 and what is left."""
    found = []
    for index, start in enumerate(range(0, NUM_ROWS, 400)):
        numbers = range(start, min(start + 400, NUM_ROWS))
        path = tmp_path / f"part{index}.txt"
        path.write_text("".join(LINE.format(number) for number in numbers))
        for first in range(0, len(numbers), 64):
            num_rows = min(64, len(numbers) - first)
            found.append(Block(path, first * 6, num_rows * 6, num_rows))
    return found


def test_from_the_second_epoch_on_rows_are_not_read_again(blocks: list[Block]):
    plain, order = Lines(blocks, window=300), order_of(num_workers=2, batch=10)
    keeping = Lines(blocks, window=300, kept=lambda rows: [rows + 1_000_000])
    num_first = order.steps_per_epoch
    expected = taken(plain, order, rank=1, num_batches=2 * num_first)
    found = taken(keeping, order, rank=1, num_batches=2 * num_first)
    assert found[:num_first] == expected[:num_first]
    assert found[num_first:] == [
        [number + 1_000_000 for number in batch] for batch in expected[num_first:]
    ]
    resumed = dataclasses.replace(order, start=num_first + 3)
    assert taken(keeping, resumed, rank=1, num_batches=5) == found[num_first + 3 : num_first + 8]


def order_of(num_workers: int, batch: int) -> Order:
    return Order(num_rows=NUM_ROWS, num_workers=num_workers, batch=batch, seed=5)


def taken(data: Stream[bytes], order: Order, rank: int, num_batches: int) -> list[list[int]]:
    batches = data.batches(order, rank)
    return [batch[0].tolist() for batch in islice(batches, num_batches)]


def test_rows_are_found_by_number_wherever_they_lie(blocks):
    data = Lines(blocks)
    assert len(data) == NUM_ROWS
    assert data.take(torch.tensor([999, 0, 400, 399, 63, 64]))[0].tolist() == [
        999, 0, 400, 399, 63, 64
    ]  # fmt: skip


@pytest.mark.parametrize("num_workers", [2, 5])
def test_workers_together_see_what_one_sees_at_their_whole_batch(blocks, num_workers):
    one, many = order_of(1, 20), order_of(num_workers, 20 // num_workers)
    num_batches = 2 * one.steps_per_epoch + 1
    whole = taken(Lines(blocks, window=128), one, 0, num_batches)
    shares = [
        taken(Lines(blocks, window=128), many, rank, num_batches) for rank in range(num_workers)
    ]
    for batch, parts in zip(whole, zip(*shares, strict=True), strict=True):
        assert batch == [row for part in parts for row in part]


def test_an_epoch_has_every_row_once_and_the_next_another_order(blocks):
    order = order_of(1, 50)
    seen = taken(Lines(blocks, window=128), order, 0, 2 * order.steps_per_epoch)
    flat = [row for batch in seen for row in batch]
    assert sorted(flat[:NUM_ROWS]) == sorted(flat[NUM_ROWS:]) == list(range(NUM_ROWS))
    assert flat[:NUM_ROWS] != flat[NUM_ROWS:]
    assert flat[:50] != sorted(flat[:50])


def test_a_block_is_read_once_an_epoch_and_few_are_held(blocks):
    data = Lines(blocks, window=128, threads=3, ahead=6)
    order = order_of(1, 10)
    taken(data, order, 0, order.steps_per_epoch)
    this_epoch = data.was_read[: len(blocks)]
    assert set(this_epoch) == set(blocks)
    assert sum(block.num_rows for block in data._held._blocks) <= 2 * (128 + 64)


def test_a_window_may_be_smaller_than_a_block_and_larger_than_all(blocks):
    for window in (7, 10 * NUM_ROWS):
        order = order_of(1, 100)
        seen = taken(Lines(blocks, window=window), order, 0, order.steps_per_epoch)
        assert sorted(row for batch in seen for row in batch) == list(range(NUM_ROWS))


def test_a_bad_row_is_told_where_it_comes(blocks):
    text = blocks[0].path.read_text()
    blocks[0].path.write_text(text.replace("00003", "three"))
    order = order_of(1, 50)
    with pytest.raises(DataError, match="three"):
        taken(Lines(blocks), order, 0, order.steps_per_epoch)


def test_a_file_that_is_gone_is_told_each_time(blocks):
    data = Lines(blocks)
    blocks[0].path.unlink()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            data.take(torch.tensor([0]))


class TestPrepared:
    def test_results_come_in_the_order_of_the_items(self):
        assert list(prepared(lambda n: n * n, range(50), threads=4, ahead=9)) == [
            n * n for n in range(50)
        ]

    def test_no_more_is_made_than_so_many_ahead(self):
        made: list[int] = []
        results = prepared(lambda n: made.append(n) or n, iter(range(1000)), threads=1, ahead=3)
        assert [next(results), next(results)] == [0, 1]
        results.close()
        assert made == list(range(len(made)))
        assert len(made) <= 5

    def test_what_goes_wrong_is_raised_in_its_place(self):
        results = prepared(lambda n: 1 // (2 - n), range(5), threads=2, ahead=4)
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(ZeroDivisionError):
            next(results)

    def test_its_threads_end_with_it(self):
        before = set(threading.enumerate())  # of other tests, perhaps
        results = prepared(lambda n: n, range(100), threads=3, ahead=6)
        next(results)
        own = set(threading.enumerate()) - before
        assert own
        results.close()
        for thread in own:
            thread.join(timeout=10)
            assert not thread.is_alive()


def test_the_position_of_a_batch_is_the_same_however_many_share_it():
    for window, runs in ((None, ()), (16, range(0, NUM_ROWS, 30))):
        one = dataclasses.replace(order_of(1, 30), window=window, runs=runs)
        three = dataclasses.replace(order_of(3, 10), window=window, runs=runs)
        num_batches = 2 * one.steps_per_epoch + 1
        whole = [draw.position for draw in islice(one.draws(0), num_batches)]
        assert whole[one.steps_per_epoch] == NUM_ROWS  # counted over epochs
        for rank in range(3):
            positions = [draw.position for draw in islice(three.draws(rank), num_batches)]
            assert positions == [position + 10 * rank for position in whole]


@pytest.mark.parametrize("start", [1, 12, 49, 77])
@pytest.mark.parametrize("in_order", [False, True])
def test_a_stream_goes_on_where_it_was_left(blocks, start, in_order):
    order = order_of(2, 10)
    later = order.continued(order.state(start))
    for rank in range(2):
        whole = taken(Lines(blocks, window=130, in_order=in_order), order, rank, start + 60)
        rest = taken(Lines(blocks, window=130, in_order=in_order), later, rank, 60)
        assert rest == whole[start:]
