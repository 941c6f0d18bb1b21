"""Machines see cheaply whether they hold the same rows."""

import random

import numpy as np
import torch

from paceline.workloads.base import Data, Tensors
from paceline.workloads.checksum import checksum_of_files


def rows(first=0.0, last=0.0):
    inputs = torch.zeros(1000, 3)
    inputs[0, 0], inputs[-1, -1] = first, last
    return Tensors(inputs, torch.arange(1000))


def test_the_same_rows_have_the_same_sum_and_others_another():
    sums = {rows().checksum(), rows(first=1.0).checksum(), rows(last=1.0).checksum()}
    assert len(sums) == 3
    assert rows(last=1.0).checksum() in sums
    assert Tensors(torch.zeros(5)).checksum() != Tensors(torch.zeros(5, 1)).checksum()


class Drawn(Data):
    """Rows that are drawn anew each time."""

    def __len__(self):
        return 10

    def take(self, rows):
        noise = torch.rand(len(rows)) + random.random() + float(np.random.rand())  # noqa: NPY002
        return [noise]


def test_rows_that_are_drawn_have_no_sum_and_nothing_later_is_drawn_otherwise():
    def drawn():
        return torch.rand(1).item(), random.random(), np.random.rand()  # noqa: NPY002

    def seed():
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002

    seed()
    expected = drawn()
    seed()
    assert Drawn().checksum() is None
    assert drawn() == expected


def test_files_are_told_apart_by_layout_beginning_and_end(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(bytes(100_000))
    first = checksum_of_files("layout", [path, path])
    assert checksum_of_files("layout", [path]) == first
    assert checksum_of_files("other layout", [path]) != first
    path.write_bytes(bytes(99_999) + b"1")
    assert checksum_of_files("layout", [path]) != first
