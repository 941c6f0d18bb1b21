"""Replayed compute: the time passes, gradients are there, each is told of when it is due."""

import math
from time import perf_counter

import pytest
import torch
from torch import nn

from paceline.compute.rates import LayerTime
from paceline.compute.replay import Replay, ReplayedUpdate
from paceline.compute.varying import Varying
from paceline.errors import SpecError
from paceline.training.optim import Update
from paceline.training.replica import Replica

TIMES = [
    LayerTime(layer="0", forward_s=0.001, backward_s=0.002),
    LayerTime(layer="2", forward_s=0.001, backward_s=0.004),
]
STEP_S = 0.008


@pytest.fixture
def replica() -> Replica:
    return Replica(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)))


def test_gradients_are_told_of_in_the_order_of_back_propagation(replica: Replica):
    told = []
    Replay(replica, told.append, TIMES).gradients(())
    names = {parameter: name for name, parameter in replica.model.named_parameters()}
    assert [names[each] for each in told] == ["2.bias", "2.weight", "0.bias", "0.weight"]


@pytest.mark.parametrize("dilation", [1.0, 4.0])
def test_no_gradient_is_told_of_before_its_time(replica: Replica, dilation: float):
    passed_s = []
    compute = Replay(replica, lambda _: passed_s.append(perf_counter()), TIMES, dilation=dilation)
    began_s = perf_counter()
    compute.gradients(())
    ended_s = perf_counter()
    assert passed_s[0] - began_s >= dilation * 0.006
    assert passed_s[2] - began_s >= dilation * STEP_S
    assert ended_s - began_s >= dilation * STEP_S


def test_it_counts_the_time_its_device_computed_and_has_no_loss(replica: Replica):
    compute = Replay(replica, None, TIMES)
    losses = [compute.gradients(()) for _ in range(3)]
    assert not compute.has_loss
    assert all(map(math.isnan, losses))
    assert compute.counted()["device_busy_s"] == pytest.approx(3 * STEP_S)
    assert compute.counted()["late_steps"] is not None


def test_steps_vary_where_they_are_asked_to(replica: Replica):
    varying = Varying((1.0, 3.0), slowness=2.0)
    compute = Replay(replica, lambda _: None, TIMES, varying=varying)
    for number in range(3):
        began_s = perf_counter()
        compute.gradients(())
        assert perf_counter() - began_s >= varying.of(number) * STEP_S
    expected_s = (2.0 + 6.0 + varying.of(2)) * STEP_S
    assert compute.counted()["device_busy_s"] == pytest.approx(expected_s)


def test_its_counts_go_on_after_a_break(replica: Replica):
    before, after = (Replay(replica, None, TIMES) for _ in range(2))
    before.gradients(())
    after.load(before.state())
    after.gradients(())
    assert after.counted()["device_busy_s"] == 2 * before.counted()["device_busy_s"] > 0


def test_gradients_are_finite_not_zero_and_each_workers_own(replica: Replica):
    Replay(replica, None, TIMES, rank=0)
    first = replica.gradients.clone()
    Replay(replica, None, TIMES, rank=1)
    assert first.isfinite().all()
    assert (first != 0).all()
    assert (replica.gradients != first).all()


def test_a_parameter_that_two_layers_share_is_told_of_once():
    shared = nn.Linear(4, 4)
    model = nn.Sequential(shared, nn.Tanh(), nn.Sequential(shared))
    told = []
    times = [LayerTime(layer="0"), LayerTime(layer="2")]
    Replay(Replica(model), told.append, times).gradients(())
    assert len(told) == len(set(told)) == 2


def test_through_autograd_each_gradient_is_ready_in_its_turn_and_stays_as_it_is(replica: Replica):
    told: list[nn.Parameter] = []
    compute = Replay(replica, None, TIMES)
    before = replica.gradients.clone()
    for parameter in replica.places:
        parameter.register_post_accumulate_grad_hook(told.append)
    compute.through_autograd(lambda model: model)
    began_s = perf_counter()
    for _ in range(2):
        compute.gradients(())
    assert perf_counter() - began_s >= 2 * STEP_S
    names = {parameter: name for name, parameter in replica.model.named_parameters()}
    layers = [names[each].partition(".")[0] for each in told]
    assert layers == ["2", "2", "0", "0"] * 2
    assert torch.equal(replica.gradients, before)
    assert compute.counted()["device_busy_s"] == pytest.approx(2 * STEP_S)
    assert compute.counted()["late_steps"] is None  # what is exchanged in there takes time too


def test_gradients_of_layers_that_no_file_lists_are_told_of_at_the_end(replica: Replica):
    told = []
    Replay(replica, told.append, TIMES[1:]).gradients(())
    names = {parameter: name for name, parameter in replica.model.named_parameters()}
    assert [names[each] for each in told] == ["2.bias", "2.weight", "0.bias", "0.weight"]


def test_layers_of_another_model_are_told(replica: Replica):
    with pytest.raises(SpecError, match="no such layers: 7"):
        Replay(replica, None, [LayerTime(layer="7")])


def test_a_replayed_update_takes_its_time_and_changes_nothing():
    values = torch.ones(10)
    update = Update(ReplayedUpdate(update_s=0.01), values)
    began_s = perf_counter()
    update.apply(torch.ones(10), 1)
    assert perf_counter() - began_s >= 0.01
    assert torch.equal(values, torch.ones(10))
    assert update.states == []
