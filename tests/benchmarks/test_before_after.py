"""Before and after: the interval of a median, what is concluded of it, and two real sides."""

import sys

import pytest
from before_after import Checkout, Interval, measure, num_outside


@pytest.mark.parametrize(("count", "outside"), [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (20, 5)])
def test_ranks_outside_of_the_interval_are_those_of_the_binomial_table(count, outside):
    assert num_outside(count) == outside


def test_the_interval_of_twenty_blocks_leaves_out_five_at_each_end():
    ratios = [0.90 + 0.01 * number for number in range(20)]
    ratio = Interval.of(ratios)
    assert (ratio.low, ratio.high) == (ratios[5], ratios[14])
    assert ratio.median == pytest.approx(0.995)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.991, 1.2, "met"), (0.9, 0.989, "MISSED"), (0.98, 1.0, "undecided")],
)
def test_only_a_whole_interval_decides(low, high, verdict):
    assert Interval(low, (low + high) / 2, high, 20).verdict(0.99) == verdict


@pytest.mark.thorough
def test_one_checkout_against_itself():
    sides = [Checkout(sys.executable), Checkout(sys.executable)]
    case = {"workload": {"name": "synthetic"}, "threads": 1, "record": {"tensorboard": False}}
    measured = dict(measure(case, sides, blocks=2, seconds=0.3))
    for side in sides:
        side.end()
    assert measured.keys() == {"steps/s", "steps per CPU second"}
    assert all(0.2 < each.median < 5 for each in measured.values())
