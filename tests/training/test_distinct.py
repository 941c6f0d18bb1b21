"""Rows of a batch told apart: each once, and every place finds its own."""

import pytest
import torch
from torch import Tensor

from paceline.training.distinct import Distinct


@pytest.mark.parametrize(
    "rows",
    [
        torch.tensor([[7, 3, 7], [3, 0, 2**40]]),
        torch.tensor([5]),
        torch.tensor([], dtype=torch.int64),
        torch.tensor([2**62, 1, 2**62]),
        torch.tensor([-1, 4, -1]),
        torch.randint(50, (300,), generator=torch.Generator().manual_seed(0)),
        torch.randint(2**40, (100, 390), generator=torch.Generator().manual_seed(0)),
        torch.arange(100).view(10, 10).t(),
    ],
    ids=["two", "one", "none", "large", "negative", "many alike", "all differ", "not contiguous"],
)
def test_each_row_is_there_once_and_every_place_finds_its_own(rows: Tensor):
    found, positions = Distinct()(rows)
    assert torch.equal(found.sort().values, rows.unique())
    assert positions.shape == rows.shape
    assert torch.equal(found[positions], rows)


def test_what_was_told_apart_before_changes_nothing():
    used, generator = Distinct(), torch.Generator().manual_seed(1)
    for count in (40, 3000, 1, 500, 3000):
        rows = torch.randint(2000, (count,), generator=generator)
        for ours, theirs in zip(used(rows), Distinct()(rows), strict=True):
            assert torch.equal(ours, theirs)


def test_numbers_whose_slots_are_the_same_are_told_apart():
    # Multiples of a power of two that the hash's shift leaves no bits of: one slot for all.
    rows = (torch.arange(64) << 58).repeat(3)
    found, positions = Distinct()(rows)
    assert len(found) == 64
    assert torch.equal(found[positions], rows)
