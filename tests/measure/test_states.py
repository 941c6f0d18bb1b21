"""States of what a worker records: saved, loaded and continued."""

import math

from paceline.measure.clock import Clock
from paceline.measure.recorder import Recorder
from paceline.testing.states import StateConformance
from paceline.training.state import copied
from tests.sinks.kept import Kept


class TestRecorder(StateConformance):
    def make(self):
        return Recorder(Kept())

    def advance(self, thing):
        number = thing.num_steps + len(thing.losses)
        thing.loading.total_ns += 5
        thing.exchanging.total_ns += 7
        thing.losses.extend([1 / (number + 3), math.inf if number == 4 else 0.5])
        if number % 4 == 2:
            thing.write(float(number), 8 * number, number)

    def test_the_final_loss_is_that_of_all_steps(self):
        before, after, unbroken = self.make(), self.make(), self.make()
        losses = [1 / (1 + step) for step in range(40)]
        before.losses += losses[:25]
        before.write(1.0, 25, None)
        after.load(copied(before.state()))
        after.losses += losses[25:]
        unbroken.losses += losses
        for each in (after, unbroken):
            each.write(2.0, 40, None)
        assert after.final_loss() == unbroken.final_loss()
        assert after.num_steps == unbroken.num_steps == 40


def test_a_clock_goes_on_from_where_it_stood():
    before, after = Clock(dilation=2.0), Clock(dilation=2.0)
    before.start(100.0)
    before.pause(107.0)
    after.load(before.state())
    assert after.now_s() == 3.5
    after.start(900.0)
    after.pause(901.0)
    assert after.now_s() == 4.0
