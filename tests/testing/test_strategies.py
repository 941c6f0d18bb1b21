"""The suite is worth something only if wrong strategies fail it."""

import pytest

from paceline.catalogue import load
from paceline.comm.base import Finished
from paceline.strategies.base import Member, Strategy
from paceline.strategies.local import Solo
from paceline.testing import StrategyConformance
from paceline.training.optim import Sgd, Update
from tests.paths import EXAMPLES

MySync = load(f"{EXAMPLES}/own_strategy.py:MySync")


class _Wrong(Strategy):
    """A synchronous server with one thing wrong."""

    @property
    def equals_single(self):
        return True

    @property
    def num_servers(self):
        return 1

    def join(self, place):
        return _Worker(place)

    def combine(self, gradients):
        return sum(gradients[1:], gradients[0]) / len(gradients)

    def serve(self, place):
        update = Update(place.optimizer, place.replica.parameters)
        number = 0
        while True:
            number += 1
            pushes = [place.channel.receive() for _ in range(place.num_workers)]
            before = place.replica.parameters.clone()
            gradients = [push.values for push in sorted(pushes, key=lambda push: push.sender)]
            update.apply(self.combine(gradients), number)
            self.answer(place, pushes, before)

    def answer(self, place, pushes, before):
        last = any(push.tag for push in pushes)
        for push in pushes:
            place.channel.send(push.sender, place.replica.parameters, tag=last)


class _Worker(Member):
    def __init__(self, place):
        self.place = place
        self.global_steps = 0

    def exchange(self, *, last):
        self.place.channel.send("server0", self.place.replica.gradients, tag=last)
        reply = self.place.channel.receive()
        self.place.replica.parameters.copy_(reply.values)
        self.global_steps += 1
        return bool(reply.tag)


class Sums(_Wrong):
    """Forgets to divide."""

    def combine(self, gradients):
        return sum(gradients[1:], gradients[0])


class LosesOne(_Wrong):
    """Leaves one worker out."""

    def combine(self, gradients):
        return gradients[0]


class IsStale(_Wrong):
    """Answers with the parameters before the update."""

    def answer(self, place, pushes, before):
        last = any(push.tag for push in pushes)
        for push in pushes:
            place.channel.send(push.sender, before, tag=last)


class Dies(_Wrong):
    """Ends before its time."""

    def answer(self, place, pushes, before):
        raise Finished


def suite_of(tested):
    return type("Suite", (StrategyConformance,), {"strategy": tested})()


@pytest.mark.parametrize(
    "wrong", [Sums(), LosesOne(), IsStale()], ids=lambda each: type(each).__name__
)
def test_a_wrong_strategy_does_not_equal_single(wrong, tmp_path):
    with pytest.raises(AssertionError):
        suite_of(wrong).test_it_equals_one_worker_with_all_the_rows(Sgd(lr=0.1), tmp_path)


def test_a_right_one_does(tmp_path):
    suite_of(_Wrong()).test_it_equals_one_worker_with_all_the_rows(Sgd(lr=0.1), tmp_path)


def test_a_server_that_ends_early_is_named_and_nobody_hangs(tmp_path):
    from paceline.errors import SeatFailed

    with pytest.raises(SeatFailed, match="server0 failed: ended before the run was over"):
        suite_of(Dies()).test_every_worker_makes_its_steps_on_every_cluster(tmp_path)


def test_promising_less_is_no_way_out_where_more_is_asked_for(tmp_path):
    suite = type("Suite", (StrategyConformance,), {"strategy": Solo(), "must_equal_single": True})()
    with pytest.raises(AssertionError, match="must equal `single`"):
        suite.test_it_equals_one_worker_with_all_the_rows(Sgd(lr=0.1), tmp_path)
