"""States of what learns and counts in training: saved, loaded and continued, to the bit."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from paceline.errors import StateError
from paceline.testing.states import StateConformance, assert_equal
from paceline.testing.strategies import OPTIMIZERS
from paceline.training.finite import Refusals
from paceline.training.optim import Adagrad, Sgd, Update
from paceline.training.random_numbers import RandomNumbers
from paceline.training.replica import Replica
from paceline.training.state import Stateful, StateReader, attributes, copied


class _Trained(Stateful):
    """Parameters that an optimizer changes, as their owner saves both."""

    def __init__(self, optimizer, shape):
        self.parameters = torch.linspace(-1, 1, 12).reshape(shape)
        self.update = Update(optimizer, self.parameters)
        self.number = 0

    def state(self):
        return attributes(self, "parameters", "update", "number")

    def load(self, state):
        with StateReader(state) as fields:
            fields.attributes(self, "parameters", "update", "number")


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
class TestOptimizers(StateConformance):
    @pytest.fixture(autouse=True)
    def _chosen(self, optimizer):
        self.optimizer = optimizer

    def make(self):
        return _Trained(self.optimizer, 12)

    def advance(self, thing):
        thing.number += 1
        thing.update.apply(thing.parameters.sin() / thing.number, thing.number)


def test_the_state_of_another_optimizer_does_not_fit():
    momentum = Update(Sgd(momentum=0.9), torch.zeros(3))
    with pytest.raises(StateError, match="optimizer = 'sgd': expected 'adagrad'"):
        Update(Adagrad(), torch.zeros(3)).load(momentum.state())
    with pytest.raises(StateError, match=r"slot0 = float32 \(3,\): expected float32 \(4,\)"):
        Update(Sgd(momentum=0.9), torch.zeros(4)).load(momentum.state())
    with pytest.raises(StateError, match=r"slot0 = float32 \(3,\): no such field"):
        Update(Sgd(), torch.zeros(3)).load(momentum.state())


class TestRefusals(StateConformance):
    def make(self):
        return Refusals(most_in_a_row=10)

    def advance(self, thing):
        count = thing.flaws.total()
        thing.note("NaN" if count % 2 else "too large", after=count // 2)


def test_refusals_in_a_row_go_on_counting_after_a_load():
    before, after = Refusals(3), Refusals(3)
    before.note("NaN", after=7)
    before.note("NaN", after=7)
    after.load(before.state())
    with pytest.raises(Exception, match="3 steps in a row were refused"):
        after.note("NaN", after=7)


def _model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(), nn.Linear(3, 2))
    model[0].bias.requires_grad_(requires_grad=False)
    return model


class TestReplica(StateConformance):
    """Parameters, those that are not trained too, and statistics of batches."""

    def make(self):
        return Replica(_model())

    def advance(self, thing):
        thing.model(thing.parameters[:24].reshape(6, 4).detach())
        thing.parameters.mul_(1.5)
        with torch.no_grad():
            thing.model[0].bias.add_(1)


def test_a_model_sees_what_its_replica_was_loaded_with():
    one, other = Replica(_model()), Replica(_model())
    one.parameters.normal_()
    other.load(copied(one.state()))
    for mine, theirs in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


class TestRandomNumbers(StateConformance):
    @pytest.fixture(autouse=True)
    def _left_alone(self):
        """Other tests draw on from where they were."""
        numbers = RandomNumbers()
        before = copied(numbers.state())
        yield
        numbers.load(before)

    def make(self):
        torch.manual_seed(3)
        np.random.seed(4)  # noqa: NPY002 - the very ones a workload may draw from
        random.seed(5)
        return RandomNumbers()

    def advance(self, thing):
        torch.rand(3)
        np.random.normal()  # noqa: NPY002
        random.gauss()  # keeps its second number for the next call

    def test_the_same_numbers_are_drawn_again(self):
        numbers = self.make()
        self.advance(numbers)
        state = copied(numbers.state())
        drawn = [self.drawn() for _ in range(2)]
        numbers.load(state)
        assert [self.drawn() for _ in range(2)] == drawn

    def drawn(self):
        return (
            torch.rand(2).tolist(),
            np.random.normal(),  # noqa: NPY002
            random.gauss(),
            random.random(),
        )

    def test_words_that_a_generator_refuses_are_named(self):
        state = copied(self.make().state())
        state["python"]["words"][-1] = 10_000
        with pytest.raises(StateError, match=r"python\.words"):
            RandomNumbers().load(state)


def test_an_error_in_a_part_is_named_from_the_whole_on():
    one = _Trained(Sgd(momentum=0.9), 12)
    state = copied(one.state())
    state["update"]["slot0"] = 3
    with pytest.raises(StateError, match=r"update\.slot0 = 3: expected float32 \(12,\)"):
        one.load(state)
    del state["update"]["slot0"]
    with pytest.raises(StateError, match=r"update\.slot0 = nothing: missing"):
        one.load(state)


def test_a_copied_state_does_not_change_with_its_object():
    one = _Trained(Sgd(momentum=0.9), 12)
    state = copied(one.state())
    one.update.apply(torch.ones(12), 1)
    assert_equal(state, _Trained(Sgd(momentum=0.9), 12).state())
