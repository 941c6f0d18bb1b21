"""How many rows a batch touches, by how often each comes in the data."""

import random
from statistics import fmean

import pytest
import torch

from paceline.planning.sparse import expected_rows, touched_rows
from paceline.spec import RunSpec

NUM_ROWS, PER_SAMPLE = 3000, 20


def drawn(num_samples: int, seed: int = 5) -> list[torch.Tensor]:
    """Samples of skewed data: few features come nearly everywhere, most hardly ever."""
    source = random.Random(seed)
    weights = [1 / rank for rank in range(1, NUM_ROWS + 1)]
    rows = range(NUM_ROWS)
    return [
        torch.tensor(sorted({*source.choices(rows, weights, k=PER_SAMPLE)}))
        for _ in range(num_samples)
    ]


@pytest.mark.parametrize("batch", [10, 100])
def test_it_is_what_batches_of_such_data_touch(batch: int):
    samples = drawn(2000)
    batches = [samples[start : start + batch] for start in range(0, 2000, batch)]
    touched = fmean(len(torch.cat(each).unique()) for each in batches)
    assert expected_rows(samples, batch) == pytest.approx(touched, rel=0.05)


def test_a_batch_larger_than_what_was_looked_at_touches_more_but_not_in_proportion():
    samples, many = drawn(400), drawn(800, seed=6)
    touched = len(torch.cat(many).unique())
    expected = expected_rows(samples, 800)
    assert expected_rows(samples, 100) < expected < 8 * expected_rows(samples, 100)
    assert expected == pytest.approx(touched, rel=0.25)


def test_the_rows_of_a_workload_are_counted_in_its_own_data():
    workload = {"name": "synthetic", "features": 50, "nonzeros": 10, "rows": 500}
    spec = RunSpec.from_table({"workload": workload, "batch": 100})
    assert touched_rows(spec) == 50
