"""How long the slowest of several workers takes."""

import random
from statistics import fmean

import pytest

from paceline.arithmetic.spread import drawn, expected_slowest, mean, relative


def test_without_spread_the_slowest_is_the_one_on_the_slowest_node():
    assert expected_slowest((), [1.0, 1.0]) == 1.0
    assert expected_slowest((), [1.0, 2.5, 1.0]) == 2.5


def test_of_two_coins_the_larger_is_expected():
    assert expected_slowest((1.0, 2.0), [1.0]) == pytest.approx(1.5)
    assert expected_slowest((1.0, 2.0), [1.0, 1.0]) == pytest.approx(1.75)


def test_it_is_what_many_draws_give():
    source = random.Random(1)
    factors = sorted(source.lognormvariate(0, 0.2) for _ in range(50))
    slowness = [1.0, 1.0, 1.1, 0.9]
    trials = [max(slow * source.choice(factors) for slow in slowness) for _ in range(40_000)]
    assert expected_slowest(factors, slowness) == pytest.approx(fmean(trials), rel=0.005)


def test_many_workers_wait_for_the_longest_step_there_was():
    assert expected_slowest((1.0, 1.1, 1.5), [1.0] * 10_000) == pytest.approx(1.5)


def test_measured_steps_become_factors_of_their_median():
    assert relative([0.2, 0.1, 0.4]) == pytest.approx((0.5, 1.0, 2.0))
    assert relative([0.0, 0.0]) == ()


def test_draws_are_the_same_each_time_and_of_the_right_mean():
    first, second = drawn((1.0, 3.0)), drawn((1.0, 3.0))
    values = [first() for _ in range(1000)]
    assert values == [second() for _ in range(1000)]
    assert fmean(values) == pytest.approx(mean((1.0, 3.0)), rel=0.1)
    assert drawn(())() == 1.0
