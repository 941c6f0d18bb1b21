"""What a model is made of, counted by hand and by torch's own counter."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from paceline.workloads import WORKLOADS
from paceline.workloads.anatomy import Anatomy, dissect, examine
from paceline.workloads.nets.resnet import cifar_resnet


def built(name: str, **fields: object) -> Anatomy:
    return examine(WORKLOADS.build({"name": name, **fields}))


def of(model: nn.Module, *batch: torch.Tensor) -> Anatomy:
    return dissect(model, lambda model, batch: model(*batch).sum(), batch)


def test_lenet_layer_by_layer():
    anatomy = built("lenet-mnist")
    counted = [each for each in anatomy.layers if each.num_parameters]
    assert [(each.kind, each.output, each.num_parameters) for each in counted] == [
        ("Conv2d", (6, 28, 28), 156),
        ("Conv2d", (16, 10, 10), 2_416),
        ("Conv2d", (120, 1, 1), 48_120),
        ("Linear", (84,), 10_164),
        ("Linear", (10,), 850),
    ]
    assert anatomy.num_parameters == 61_706
    assert counted[0].multiply_adds == 6 * 28 * 28 * 25
    assert counted[0].inputs == (1, 28, 28)


def test_it_agrees_with_torchs_own_counter():
    model = cifar_resnet(8)
    inputs = torch.randn(1, 3, 20, 24)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(inputs)
    assert of(model, inputs).multiply_adds == counter.get_total_flops() // 2


def test_shapes_are_those_that_are_really_computed():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=2, dilation=2, groups=1),
        nn.ConvTranspose2d(4, 5, 3, stride=2, output_padding=1),
        nn.Conv2d(5, 5, (1, 3), groups=5),
        nn.Flatten(2),
        nn.Linear(18 * 16, 7, bias=False),
    )
    inputs = torch.randn(1, 3, 15, 15)
    expected = []
    hidden = inputs
    for layer in model:
        hidden = layer(hidden)
        expected.append(tuple(hidden.shape[1:]))
    assert [layer.output for layer in of(model, inputs).layers] == expected


def test_a_table_of_rows_counts_though_it_is_not_there():
    anatomy = built("synthetic", features=1_000_000, nonzeros=20)
    assert anatomy.num_parameters == 1_000_001
    assert anatomy.multiply_adds == 20


def test_parameters_outside_layers_and_shared_ones_count_once():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(5))
            self.first = nn.Linear(5, 5)
            self.second = nn.Linear(5, 5)
            self.second.weight = self.first.weight
            self.unused = nn.Linear(5, 2)

        def forward(self, inputs):
            return functional.relu(self.second(self.first(inputs * self.scale))) @ torch.ones(5, 3)

    anatomy = of(Odd(), torch.randn(1, 5))
    assert anatomy.num_parameters == 5 + 25 + 5 + 5 + 12
    assert anatomy.multiply_adds == 25 + 25 + 15
    by_name = {layer.name: layer for layer in anatomy.layers}
    assert by_name["(model)"].num_parameters == 5
    assert by_name["(model)"].multiply_adds == 15
    assert by_name["unused"].output is None


def test_the_data_flow_leads_from_the_batch_to_the_loss():
    nodes = {node.name: node for node in built("logistic-mnist").nodes}
    (last,) = nodes.keys() - {name for node in nodes.values() for name in node.inputs}
    reached, waiting = set(), [last]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting += nodes[name].inputs
    assert {"batch/0", "batch/1", "weight", "bias"} <= reached
    assert nodes["batch/0"].kind == "Input"
    assert nodes["weight"].shape == (10, 784)


def test_every_node_of_a_deep_network_has_its_place():
    anatomy = built("resnet20-cifar10")
    names = [node.name for node in anatomy.nodes]
    assert len(names) == len(set(names))
    assert {name for node in anatomy.nodes for name in node.inputs} <= set(names)
    # A name is never a node and a folder of nodes at once.
    assert not [name for name in names for other in names if other.startswith(f"{name}/")]
    added = next(node for node in anatomy.nodes if node.name == "stage1/0/add")
    assert len(added.inputs) == 2


def test_looking_changes_nothing():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    of(model, torch.randn(1, 1, 5, 5))
    assert model.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())
    inputs = torch.ones(1, 1, 5, 5)
    assert torch.equal(model.eval()(inputs), model(inputs))


def test_a_model_that_fails_is_left_as_it_was():
    for model, inputs in (
        (nn.Linear(3, 2), torch.ones(1, 4)),
        (nn.Conv2d(3, 2, 1), torch.ones(1, 4, 5, 5)),
    ):
        with pytest.raises(RuntimeError, match=r"shapes cannot be|to have 3 channels"):
            of(model, inputs)
        assert model.training
        assert not model._forward_hooks
