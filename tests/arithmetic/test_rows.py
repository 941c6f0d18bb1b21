"""How many different rows a batch touches."""

import random
from statistics import fmean

import pytest

from paceline.arithmetic.rows import RowTraffic, expected_distinct, grown_distinct


def test_it_is_what_many_draws_give():
    source = random.Random(3)
    frequencies = [1 / rank for rank in range(1, 2001)]
    trials = [len(set(source.choices(range(2000), frequencies, k=500))) for _ in range(200)]
    assert expected_distinct(frequencies, 500) == pytest.approx(fmean(trials), rel=0.01)


def test_the_ends_are_exact():
    assert expected_distinct([1.0], 100) == pytest.approx(1.0)
    assert expected_distinct([1.0, 1.0], 1) == pytest.approx(1.0)
    assert expected_distinct([3, 0], 5) == pytest.approx(1.0)
    assert expected_distinct([], 5) == 0.0


def test_a_larger_batch_touches_more_rows_but_not_in_proportion():
    assert grown_distinct(1000.0, 700.0, 2.0) == pytest.approx(1000.0 / 0.7)
    assert grown_distinct(1000.0, 700.0, 4.0) == pytest.approx(1000.0 / 0.7**2)
    assert grown_distinct(1000.0, 500.0, 2.0) == pytest.approx(2000.0)
    assert grown_distinct(1000.0, 700.0, 1.0) == 1000.0


def test_row_numbers_travel_twice_up_and_values_once_each_way():
    rows = RowTraffic(num_rows=100, row_bytes=4)
    assert rows.sent_bytes == 100 * (16 + 4)
    assert rows.received_bytes == 400
