"""Rows as workers take them: the same for any number of workers, each at most once an epoch."""

from itertools import islice

import numpy as np
import pytest
import torch

from paceline.workloads.data.sparse import data
from paceline.workloads.data.sparse.data import Batcher, Held
from paceline.workloads.data.sparse.examples import Examples, concatenated
from paceline.workloads.data.sparse.reading import Judge
from paceline.workloads.order import Order

NUM_ROWS = 1000


def held(hashed_to: int | None = None) -> Held:
    """Row n has the features 2n and 2n + 1."""
    features = np.arange(2 * NUM_ROWS, dtype=np.uint32).reshape(NUM_ROWS, 2)
    examples = Examples(np.arange(NUM_ROWS) % 2, features)
    return Held(examples, Batcher(torch.float32, hashed_to), Judge("stop"), "made up")


def rows_in(batch: list[torch.Tensor]) -> list[int]:
    """The numbers of a batch's rows."""
    touched, positions, _ = batch
    return (touched[positions][:, 0] // 2).tolist()


def taken(rows: Held, num_workers: int, batch: int, rank: int, num_batches: int) -> list[list[int]]:
    order = Order(num_rows=NUM_ROWS, num_workers=num_workers, batch=batch, seed=3)
    return [rows_in(each) for each in islice(rows.batches(order, rank), num_batches)]


@pytest.mark.parametrize("most_whole", [10_000, 100], ids=["whole", "in windows"])
def test_workers_together_take_what_one_takes_at_their_whole_batch(most_whole, monkeypatch):
    monkeypatch.setattr(data, "_MOST_WHOLE", most_whole)
    monkeypatch.setattr(data, "WINDOW", 256)
    monkeypatch.setattr(data, "_RUN", 32)
    whole = taken(held(), 1, 30, 0, 40)
    parts = [taken(held(), 3, 10, rank, 40) for rank in range(3)]
    assert [[row for part in step for row in part] for step in zip(*parts, strict=True)] == whole
    epoch = [row for step in whole[: NUM_ROWS // 30] for row in step]
    assert len(set(epoch)) == len(epoch)
    assert epoch != sorted(epoch)


def test_a_batch_names_each_row_of_the_table_once():
    features = np.array([[5, 7], [7, 9]], np.uint32)
    batcher = Batcher(torch.float64)
    touched, positions, labels = batcher.batch(Examples(np.array([1, 0], np.uint8), features))
    assert touched.tolist() == [5, 7, 9]
    assert touched[positions].tolist() == features.tolist()
    assert labels.tolist() == [1.0, 0.0]
    assert labels.dtype == torch.float64


def test_hashes_are_spread_over_the_features_when_a_batch_is_made():
    hashes = np.array([[0, 2**31], [2**32 - 1, 2**30]], np.uint32)
    batch = Batcher(torch.float32, hashed_to=100).batch(Examples(np.zeros(2), hashes))
    assert batch[0][batch[1]].tolist() == [[0, 50], [99, 25]]


def test_rows_of_different_lengths_come_with_values_and_where_each_begins():
    starts, values = np.array([0, 2, 2, 3]), np.array([0.5, 2, 3], np.float32)
    rows = Examples(np.zeros(3, np.float32), np.array([4, 6, 4], np.uint32), starts, values)
    part = rows.take(np.array([2, 0, 1]))
    touched, positions, _, weights, bags = Batcher(torch.float32).batch(part)
    assert touched[positions].tolist() == [4, 4, 6]
    assert weights.tolist() == [3, 0.5, 2]
    assert bags.tolist() == [0, 1, 3, 3]


def test_rows_of_one_length_and_of_several_can_stand_behind_each_other():
    matrix = Examples(np.ones(2, np.float32), np.array([[1, 2], [3, 4]], np.uint32))
    starts, values = np.array([0, 1]), np.array([0.5], np.float32)
    vector = Examples(np.zeros(1, np.float32), np.array([9], np.uint32), starts, values)
    both = concatenated([matrix, vector])
    assert both.features.tolist() == [1, 2, 3, 4, 9]
    assert both.starts.tolist() == [0, 2, 4, 5]
    assert both.values.tolist() == [1, 1, 1, 1, 0.5]
    assert both.as_matrix() is both
    assert matrix.as_vector().as_matrix().features.tolist() == matrix.features.tolist()
