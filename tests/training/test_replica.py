"""A replica is the same model, its parameters and gradients laid out in two vectors."""

import copy

import pytest
import torch
from torch import Tensor, nn

from paceline.errors import SpecError
from paceline.training.replica import Replica
from paceline.training.rows import Rows
from paceline.workloads.nets.lenet import lenet5


def gradients_of(model: nn.Module, inputs: Tensor) -> list[Tensor]:
    model(inputs).square().mean().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@pytest.fixture
def lenet() -> nn.Module:
    torch.manual_seed(0)
    return lenet5()


def test_forward_and_backward_are_those_of_the_model(lenet: nn.Module):
    inputs = torch.randn(4, 1, 28, 28)
    plain = copy.deepcopy(lenet)
    replica = Replica(lenet)
    assert torch.equal(replica.model(inputs), plain(inputs))
    expected = torch.cat([each.flatten() for each in gradients_of(plain, inputs)])
    gradients_of(replica.model, inputs)
    torch.testing.assert_close(replica.gradients, expected, rtol=1e-6, atol=1e-8)


def test_the_vector_holds_the_parameters_in_the_models_order(lenet: nn.Module):
    expected = torch.cat([each.detach().flatten() for each in lenet.parameters()])
    replica = Replica(lenet)
    assert torch.equal(replica.parameters, expected)
    assert list(replica.places) == list(lenet.parameters())
    assert [place.stop - place.start for place in replica.places.values()] == [
        each.numel() for each in lenet.parameters()
    ]


def test_parameters_and_gradients_are_views_of_the_vectors(lenet: nn.Module):
    replica = Replica(lenet)
    replica.parameters.fill_(3.0)
    assert all((each == 3).all() for each in lenet.parameters())
    gradients_of(lenet, torch.randn(2, 1, 28, 28))
    replica.gradients.fill_(5.0)
    assert all((each.grad == 5).all() for each in lenet.parameters())
    with torch.no_grad():
        next(lenet.parameters()).zero_()
    assert not replica.parameters[: 6 * 25].any()


def test_a_second_backward_adds_to_the_same_memory(lenet: nn.Module):
    replica = Replica(lenet)
    inputs = torch.randn(2, 1, 28, 28)
    gradients_of(lenet, inputs)
    once = replica.gradients.clone()
    gradients_of(lenet, inputs)
    torch.testing.assert_close(replica.gradients, 2 * once)


def test_channels_last_stays_channels_last():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)).to(
        memory_format=torch.channels_last
    )
    strides = [each.stride() for each in plain.parameters()]
    inputs = torch.randn(2, 3, 9, 9)
    expected = plain(inputs)
    replica = Replica(plain)
    assert [each.stride() for each in plain.parameters()] == strides
    assert [each.grad.stride() for each in plain.parameters()] == strides
    assert torch.equal(plain(inputs), expected)
    assert replica.parameters.numel() == sum(each.numel() for each in plain.parameters())


def test_a_parameter_cut_out_of_a_larger_tensor_gets_a_place_of_its_own():
    torch.manual_seed(0)
    model = nn.ParameterList([torch.randn(4, 10)[:, :3], torch.randn(5), torch.ones(1).expand(6)])
    expected = torch.cat([each.detach().flatten() for each in model])
    replica = Replica(model)
    assert torch.equal(replica.parameters, expected)
    for number, parameter in enumerate(model):
        parameter.data.fill_(number)
    assert replica.parameters.tolist() == [0.0] * 12 + [1.0] * 5 + [2.0] * 6


def test_tied_parameters_have_one_place_and_stay_tied():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    plain = copy.deepcopy(model)
    replica = Replica(model)
    assert replica.parameters.numel() == 16
    assert model[0].weight is model[1].weight
    inputs = torch.randn(3, 4)
    (expected,) = gradients_of(plain, inputs)
    gradients_of(model, inputs)
    torch.testing.assert_close(replica.gradients, expected.flatten())


def test_frozen_parameters_are_left_out_and_left_as_they_are():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    model[0].requires_grad_(requires_grad=False)
    frozen = model[0].weight.clone()
    replica = Replica(model)
    assert replica.parameters.numel() == 8
    replica.parameters.fill_(9.0)
    assert torch.equal(model[0].weight, frozen)
    assert model[0].weight.grad is None


def test_all_is_float64_where_asked_for():
    replica = Replica(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), torch.float64)
    assert replica.parameters.dtype == replica.gradients.dtype == torch.float64
    assert {each.dtype for each in replica.model.parameters()} == {torch.float64}
    gradients_of(replica.model, torch.randn(5, 4, dtype=torch.float64))
    assert replica.gradients.any()


def test_scalars_and_empty_parameters_have_their_place():
    model = nn.ParameterList([torch.tensor(2.0), torch.zeros(0, 3), torch.tensor([4.0])])
    assert Replica(model).parameters.tolist() == [2.0, 4.0]


def test_parameters_that_are_not_real_numbers_are_told():
    model = nn.ParameterDict({"phase": nn.Parameter(torch.zeros(2, dtype=torch.complex64))})
    with pytest.raises(SpecError, match="phase"):
        Replica(model)


def test_a_table_of_rows_is_found():
    table = Rows(100, 3)
    assert Replica(nn.Sequential(nn.Sequential(table), nn.Linear(3, 1))).table is table
    assert Replica(nn.Linear(3, 1)).table is None


def test_two_tables_are_told_rather_than_one_forgotten():
    with pytest.raises(SpecError, match="one table"):
        Replica(nn.ModuleList([Rows(10), Rows(20)]))


def test_the_table_sums_weighted_rows_and_leaves_their_gradients_in_the_window():
    table = Rows(100, 2)
    table.window = torch.tensor([[1.0, 2.0], [10.0, 20.0]]).requires_grad_()
    summed = table(torch.tensor([[0, 1], [1, 1]]), torch.tensor([[1.0, 2.0], [0.5, 0.5]]))
    assert summed.tolist() == [[21.0, 42.0], [10.0, 20.0]]
    summed.sum().backward()
    assert table.window.grad.tolist() == [[1.0, 1.0], [3.0, 3.0]]


def test_what_is_let_go_keeps_its_sizes_and_takes_no_memory():
    replica = Replica(nn.Linear(3, 2), torch.float64)
    replica.let_go()
    assert (replica.parameters.numel(), replica.parameters.dtype) == (8, torch.float64)
    assert replica.num_bytes == 64
    assert all(each.numel() == 0 and each.grad is None for each in replica.places)


@pytest.mark.parametrize("count", [0, 1, 1001])
def test_gradients_begin_as_zeros_where_the_processor_likes_vectors_to_begin(count: int):
    gradients = Replica(nn.ParameterList([torch.ones(count)])).gradients
    assert gradients.tolist() == [0.0] * count
    assert count == 0 or gradients.data_ptr() % 64 == 0
