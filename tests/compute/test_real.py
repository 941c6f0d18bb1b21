"""Real gradients are autograd's, in the replica's own memory, and told of as they are finished."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.compute.real import Real
from paceline.training.replica import Replica


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


BATCH = (torch.randn(8, 6), torch.randint(3, (8,)))


def cross_entropy(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1])


def test_gradients_and_loss_are_autograds(model: nn.Module):
    expected = torch.autograd.grad(cross_entropy(model, BATCH), list(model.parameters()))
    expected_loss = cross_entropy(model, BATCH).item()
    replica = Replica(model)
    loss = Real(cross_entropy, replica, None).gradients(BATCH)
    assert loss == expected_loss
    assert torch.equal(replica.gradients, torch.cat([each.flatten() for each in expected]))


def test_gradients_of_a_batch_are_its_own_not_added_to_the_last(model: nn.Module):
    replica = Replica(model)
    compute = Real(cross_entropy, replica, None)
    compute.gradients(BATCH)
    first = replica.gradients.clone()
    replica.gradients.fill_(7.0)  # a strategy may overwrite them
    compute.gradients(BATCH)
    assert torch.equal(replica.gradients, first)


def test_the_models_gradients_stay_in_the_replicas_memory(model: nn.Module):
    replica = Replica(model)
    compute = Real(cross_entropy, replica, None)
    for _ in range(2):
        compute.gradients(BATCH)
    start = replica.gradients.data_ptr()
    for parameter, place in replica.places.items():
        assert parameter.grad is not None
        assert parameter.grad.data_ptr() == start + 4 * place.start


def test_each_parameter_is_told_of_once_last_layer_first_and_already_final(model: nn.Module):
    replica = Replica(model)
    told: list[tuple[nn.Parameter, Tensor]] = []

    def ready(parameter: nn.Parameter) -> None:
        told.append((parameter, replica.gradients[replica.places[parameter]].clone()))

    compute = Real(cross_entropy, replica, ready)
    compute.gradients(BATCH)
    assert {parameter for parameter, _ in told} == set(replica.places)
    assert len(told) == len(replica.places)
    layers = [parameter is model[2].weight or parameter is model[2].bias for parameter, _ in told]
    assert layers == [True, True, False, False]
    for parameter, gradient in told:
        assert torch.equal(gradient, replica.gradients[replica.places[parameter]])


def test_a_tied_parameter_is_told_of_once():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    replica = Replica(model)
    told: list[nn.Parameter] = []
    compute = Real(lambda model, batch: model(batch[0]).sum(), replica, told.append)
    compute.gradients((torch.randn(2, 4),))
    assert told == [model[0].weight]


def test_a_parameter_the_loss_does_not_use_has_a_zero_gradient(model: nn.Module):
    both = nn.ModuleDict({"used": model, "unused": nn.Linear(2, 2)})
    replica = Replica(both)
    Real(lambda both, batch: cross_entropy(both["used"], batch), replica, None).gradients(BATCH)
    assert not replica.gradients[-6:].any()
    assert replica.gradients[:-6].any()


def test_a_diverged_loss_is_given_as_it_is(model: nn.Module):
    replica = Replica(model)
    replica.parameters.fill_(float("nan"))
    assert torch.tensor(Real(cross_entropy, replica, None).gradients(BATCH)).isnan()


def test_a_formula_takes_the_place_of_back_propagation_and_tells_of_each_parameter(
    model: nn.Module,
):
    replica, told = Replica(model), list[nn.Parameter]()

    def formula(own: nn.Module, batch: object) -> float:
        assert own is model
        for parameter in own.parameters():
            parameter.grad += 2.0
        return 0.5

    compute = Real(cross_entropy, replica, told.append, formula=formula)
    for _ in range(2):
        assert compute.gradients(BATCH) == 0.5
        assert replica.gradients.eq(2.0).all()
    assert told == 2 * list(replica.places)
