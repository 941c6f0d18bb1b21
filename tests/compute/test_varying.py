"""Steps that vary: as the factors do, each worker's in an order of its own."""

from itertools import pairwise

import pytest

from paceline.compute.varying import Varying

FACTORS = tuple(1 + each / 10 for each in range(10))


def test_by_itself_every_step_is_alike():
    assert [Varying().of(number) for number in range(3)] == [1.0, 1.0, 1.0]
    assert Varying(slowness=1.5).of(7) == 1.5


def test_every_factor_comes_once_before_one_comes_again():
    varying = Varying(FACTORS, slowness=2.0, rank=3)
    rounds = [[varying.of(first + each) for each in range(10)] for first in (0, 10, 20)]
    wanted = sorted(2.0 * each for each in FACTORS)
    assert all(sorted(each) == wanted for each in rounds)
    assert all(one != other for one, other in pairwise(rounds))


def test_workers_are_slow_at_different_steps():
    one, other = (Varying(FACTORS, rank=rank) for rank in (0, 1))
    assert [one.of(each) for each in range(10)] != [other.of(each) for each in range(10)]


def test_a_step_has_the_same_factor_whenever_it_is_made():
    again = Varying(FACTORS, rank=1)
    backwards = [again.of(number) for number in reversed(range(25))]
    made = Varying(FACTORS, rank=1)
    assert backwards == [made.of(number) for number in range(25)][::-1]


@pytest.mark.parametrize("num_steps", [0, 3, 10, 27])
def test_its_total_is_the_sum_of_its_steps(num_steps: int):
    varying = Varying(FACTORS, rank=2)
    steps = [varying.of(number) for number in range(num_steps)]
    assert varying.total(num_steps) == pytest.approx(sum(steps))
