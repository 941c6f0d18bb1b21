"""The offset of a clock: the truth is always within what is said of it."""

import random
import time

import pytest

from paceline.comm.offset import Gauge
from paceline.comm.pair_line import PairLine
from paceline.comm.seat_line import SeatLine
from tests.comm.lines import line_of_a_seat


class World:
    """Two machines: time passes when it is told to, and one clock runs a little faster."""

    def __init__(self, shift_s: float, drift: float = 0.0) -> None:
        self.there_s = 5000.0
        self.shift_s = shift_s
        self.drift = drift
        self.gauge = Gauge(self.here_s)

    def here_s(self) -> float:
        return self.there_s * (1 + self.drift) + self.shift_s

    def pass_by(self, seconds: float) -> None:
        self.there_s += seconds

    def trip(self, go_s: float, back_s: float) -> None:
        sent_s = self.here_s()
        self.pass_by(go_s)
        told_s = self.there_s
        self.pass_by(back_s)
        self.gauge.learn(sent_s, told_s)

    @property
    def error_s(self) -> float:
        return abs(self.gauge.offset.seconds - (self.here_s() - self.there_s))

    @property
    def uncertainty_s(self) -> float:
        return self.gauge.offset.uncertainty_s

    def assert_truth_is_within(self) -> None:
        assert self.error_s <= self.uncertainty_s + 1e-9  # of rounding, at thousands of seconds


@pytest.mark.parametrize("shift_s", [-4000.0, 0.0, 0.003, 1e6])
def test_it_is_as_certain_as_the_best_of_several_trips(shift_s: float):
    chance = random.Random(7)
    world = World(shift_s)
    trips = [(chance.expovariate(1000), chance.expovariate(1000)) for _ in range(8)]
    for each in trips:
        world.trip(*each)
        world.assert_truth_is_within()
    assert world.uncertainty_s <= min(map(sum, trips)) / 2 + 1e-9


@pytest.mark.parametrize(("go_s", "back_s"), [(0.1, 0.0), (0.0, 0.1)])
def test_a_way_that_takes_longer_than_the_other_is_accounted_for(go_s: float, back_s: float):
    world = World(-300)
    for _ in range(8):
        world.trip(go_s, back_s)
    assert world.error_s == pytest.approx(0.05)
    assert world.uncertainty_s == pytest.approx(0.05, rel=0.01)
    world.assert_truth_is_within()


@pytest.mark.parametrize("drift", [-8e-5, 8e-5])
def test_clocks_that_run_apart_are_followed_though_answers_are_read_late(drift: float):
    chance = random.Random(8)
    world = World(1000, drift)
    for _ in range(8):
        world.trip(1e-4, 1e-4)
    moved_s = world.gauge.offset.seconds
    for _ in range(360):  # an hour
        world.pass_by(10)
        world.assert_truth_is_within()
        world.trip(1e-4, chance.uniform(0, 0.1))  # a worker looks at its line now and then
        world.assert_truth_is_within()
        assert world.uncertainty_s < 0.06
    assert abs(world.gauge.offset.seconds - moved_s) > 0.2


def test_what_is_not_learnt_again_becomes_less_certain():
    world = World(1000, 8e-5)
    world.trip(1e-4, 1e-4)
    before_s = world.uncertainty_s
    world.pass_by(600)
    world.assert_truth_is_within()
    assert world.uncertainty_s > before_s + 0.01


def test_a_machine_that_slept_is_measured_anew():
    world = World(1000)
    world.trip(1e-4, 1e-4)
    world.shift_s -= 60
    world.pass_by(10)
    world.trip(1e-3, 1e-3)
    world.assert_truth_is_within()
    assert world.uncertainty_s == pytest.approx(1e-3, rel=0.01)


def test_the_clock_that_is_read_never_goes_back():
    chance = random.Random(9)
    world = World(1000, 8e-5)
    world.trip(1e-4, 1e-4)
    read = []
    for number in range(3000):
        world.pass_by(0.001)
        if number % 100 == 0:
            world.trip(chance.uniform(0, 0.05), chance.uniform(0, 0.05))
        read.append(world.gauge.there_s())
    assert read == sorted(read)


def test_on_one_machine_there_is_one_clock_and_nothing_is_asked():
    line, seat = line_of_a_seat()
    assert line.clock is seat.clock is time.monotonic
    assert isinstance(line, PairLine)
    assert isinstance(seat, SeatLine)
    assert line.receive(0) is None
    line.close()
    seat.close()
