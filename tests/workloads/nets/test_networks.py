"""The networks have the sizes and the arithmetic of Shi's table 3.1, and start as told."""

import pytest
import torch
from torch import nn

from paceline.workloads import WORKLOADS
from paceline.workloads.anatomy import Anatomy, examine
from paceline.workloads.nets.alexnet import alexnet
from paceline.workloads.nets.resnet import cifar_resnet, resnet
from paceline.workloads.nets.vgg import vgg

# Name, MiB of float32 parameters, billions of multiply-adds at 224 x 224.
TABLE_3_1 = [
    ("alexnet-cifar10", 233, 0.7),
    ("vgg16-cifar10", 528, 15.5),
    ("vgg19-cifar10", 548, 19.6),
    ("resnet50-cifar10", 98, 3.9),
    ("resnet152-cifar10", 230, 11.3),
]


def examined(name: str, **fields: int) -> Anatomy:
    return examine(WORKLOADS.build({"name": name, **fields}))


@pytest.mark.parametrize(("name", "mib", "billions"), TABLE_3_1)
def test_with_a_thousand_classes_they_are_those_of_the_table(name, mib, billions):
    anatomy = examined(name, num_classes=1000, image_size=224)
    assert anatomy.num_bytes / 2**20 == pytest.approx(mib, abs=1)
    assert anatomy.multiply_adds / 1e9 == pytest.approx(billions, rel=0.03)


@pytest.mark.parametrize("name", [name for name, *_ in TABLE_3_1])
def test_the_size_does_not_depend_on_the_pictures(name):
    small, large = examined(name), examined(name, image_size=96)
    assert small.num_parameters == large.num_parameters
    assert small.multiply_adds < large.multiply_adds


def test_the_small_one_is_that_of_the_paper():
    anatomy = examined("resnet20-cifar10")
    assert anatomy.num_parameters == 269_722  # "0.27M" in its table 6
    assert anatomy.multiply_adds == 40_551_040
    layers = [layer for layer in anatomy.layers if layer.kind in {"Conv2d", "Linear"}]
    assert len(layers) == 20


def deviation(layer: nn.Module) -> float:
    return layer.weight.detach().std().item()


class TestInitialValues:
    def test_alexnet_is_drawn_by_inputs_and_outputs(self):
        torch.manual_seed(0)
        layer = alexnet(10).features[8]
        assert deviation(layer) == pytest.approx((2 / ((192 + 384) * 9)) ** 0.5, rel=0.03)
        assert not layer.bias.any()

    def test_vgg_is_drawn_by_inputs_and_outputs(self):
        torch.manual_seed(0)
        layer = vgg(16, 10).features[2]
        assert deviation(layer) == pytest.approx((2 / (2 * 64 * 9)) ** 0.5, rel=0.03)
        assert not layer.bias.any()

    def test_resnets_are_drawn_by_inputs(self):
        torch.manual_seed(0)
        layer = resnet(50, 10).stage4[0].body[3]
        assert deviation(layer) == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.03)


def test_a_stage_halves_the_picture_in_its_first_convolution():
    block = resnet(50, 10).stage2[0]
    assert [each.stride for each in block.body if isinstance(each, nn.Conv2d)] == [
        (2, 2), (1, 1), (1, 1)
    ]  # fmt: skip


def test_a_shortcut_without_parameters_keeps_every_other_pixel():
    block = cifar_resnet(20).stage2[0]
    assert not list(block.shortcut.parameters())
    inputs = torch.randn(2, 16, 8, 8)
    shortcut = block.shortcut(inputs)
    assert torch.equal(shortcut[:, :16], inputs[:, :, ::2, ::2])
    assert shortcut.shape == (2, 32, 4, 4)
    assert not shortcut[:, 16:].any()


def test_the_small_one_learns_a_batch_by_heart():
    torch.manual_seed(0)
    model = cifar_resnet(8)
    inputs, classes = torch.randn(16, 3, 16, 16), torch.arange(16) % 10
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
