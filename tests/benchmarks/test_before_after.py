"""Before and after: the interval of a median, what is concluded of it, and two real sides."""

import sys

import pytest
from before_after import Checkout, Interval, Ratio, measure, num_outside


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


@pytest.mark.parametrize(
    ("high", "by_cpu", "said"),
    [
        (0.985, 0.985, ["reached", "kept", "met"]),
        (1.2, 0.97, ["reached", "ROSE", "MISSED"]),
        (0.979, 1.3, ["MISSED", "kept", "MISSED"]),
        (0.9, 0.9, ["MISSED", "ROSE", "MISSED"]),
    ],
)
def test_a_case_is_met_if_its_interval_reaches_the_figure_and_cpu_time_did_not_rise(
    high: float, by_cpu: float, said: list[str]
):
    ratio = Ratio(Interval(0.8, 0.9, high, 20), Interval(0.9, by_cpu, 1.4, 20))
    assert [line.rpartition(": ")[2] for line in ratio.lines("ring", 0.98)] == said
    assert ratio.is_met(0.98) == (said[-1] == "met")


def test_lines_say_what_was_measured_and_what_is_allowed():
    ratio = Ratio(Interval(0.97, 0.99, 1.01, 20), Interval(0.98, 1.0, 1.02, 20))
    by_clock, by_cpu, word = ratio.lines("ring", 0.98)
    assert by_clock == (
        "ring: steps/s, after over before: 0.9900 (0.9700 to 1.0100, n=20); wanted 0.98: reached"
    )
    assert by_cpu == (
        "ring: steps per CPU second, after over before: 1.0000 (0.9800 to 1.0200, n=20); "
        "CPU seconds per step may rise by 2 %: kept"
    )
    assert word == "ring: met"


@pytest.mark.thorough
def test_one_checkout_against_itself():
    sides = [Checkout(sys.executable), Checkout(sys.executable)]
    case = {"workload": {"name": "synthetic"}, "threads": 1, "record": {"tensorboard": False}}
    measured = measure(case, sides, blocks=2, seconds=0.3)
    for side in sides:
        side.end()
    assert all(0.2 < each.median < 5 for each in (measured.by_clock, measured.by_cpu))
