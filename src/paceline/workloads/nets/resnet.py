"""Residual networks (He, Zhang, Ren and Sun, 2016): those for ImageNet and those for CIFAR-10.

The stride of a stage is in the first convolution of its first block, as in the paper; many later
implementations have it in the second, which costs 6 % more multiply-adds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Literal, final

from torch import Tensor, nn
from torch.nn import functional

_STAGES: Final = {50: (3, 4, 6, 3), 152: (3, 8, 36, 3)}
_EXPANSION: Final = 4


@final
class Residual(nn.Module):
    """A block: what its layers compute is added to what came in."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, inputs: Tensor) -> Tensor:
        added: Tensor = self.body(inputs) + self.shortcut(inputs)
        return added.relu_()


@final
class Padded(nn.Module):
    """A shortcut without parameters (option A): every other pixel, new channels zero."""

    def __init__(self, num_new: int, stride: int) -> None:
        super().__init__()
        self.num_new = num_new
        self.stride = stride

    def forward(self, inputs: Tensor) -> Tensor:
        thinned = inputs[:, :, :: self.stride, :: self.stride]
        return functional.pad(thinned, (0, 0, 0, 0, 0, self.num_new))


def resnet(depth: Literal[50, 152], num_classes: int = 1000) -> nn.Sequential:
    """Make a network for ImageNet, of bottleneck blocks."""
    stem = nn.Sequential(*_convolution(3, 64, 7, stride=2), nn.ReLU(inplace=True))
    stem.append(nn.MaxPool2d(3, stride=2, padding=1))
    widths = (64, 128, 256, 512)
    stages = []
    channels = 64
    for index, (width, count) in enumerate(zip(widths, _STAGES[depth], strict=True)):
        stages.append(_stage(_bottleneck, channels, width, count, stride=2 if index else 1))
        channels = width * _EXPANSION
    return _whole(stem, stages, channels, num_classes)


def cifar_resnet(depth: int, num_classes: int = 10) -> nn.Sequential:
    """Make a network of section 4.2, of 6n + 2 layers in basic blocks."""
    count = (depth - 2) // 6
    stem = nn.Sequential(*_convolution(3, 16, 3), nn.ReLU(inplace=True))
    stages = []
    channels = 16
    for index, width in enumerate((16, 32, 64)):
        stages.append(_stage(_basic, channels, width, count, stride=2 if index else 1))
        channels = width
    return _whole(stem, stages, channels, num_classes)


def _bottleneck(channels: int, width: int, stride: int) -> Residual:
    out = width * _EXPANSION
    body = nn.Sequential(
        *_convolution(channels, width, 1, stride=stride),
        nn.ReLU(inplace=True),
        *_convolution(width, width, 3),
        nn.ReLU(inplace=True),
        *_convolution(width, out, 1),
    )
    if channels == out and stride == 1:
        return Residual(body, nn.Identity())
    return Residual(body, nn.Sequential(*_convolution(channels, out, 1, stride=stride)))


def _basic(channels: int, width: int, stride: int) -> Residual:
    body = nn.Sequential(
        *_convolution(channels, width, 3, stride=stride),
        nn.ReLU(inplace=True),
        *_convolution(width, width, 3),
    )
    if channels == width and stride == 1:
        return Residual(body, nn.Identity())
    return Residual(body, Padded(width - channels, stride))


def _stage(
    block: Callable[[int, int, int], Residual], channels: int, width: int, count: int, stride: int
) -> nn.Sequential:
    first = block(channels, width, stride)
    out = width * _EXPANSION if block is _bottleneck else width
    return nn.Sequential(first, *(block(out, width, 1) for _ in range(count - 1)))


def _convolution(channels: int, width: int, size: int, stride: int = 1) -> tuple[nn.Module, ...]:
    """A convolution and its batch normalisation, which makes a bias needless."""
    padding = size // 2
    return (
        nn.Conv2d(channels, width, size, stride=stride, padding=padding, bias=False),
        nn.BatchNorm2d(width),
    )


def _whole(
    stem: nn.Module, stages: list[nn.Sequential], channels: int, num_classes: int
) -> nn.Sequential:
    parts = {f"stage{number}": stage for number, stage in enumerate(stages, 1)}
    ending = {"pool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    classifier = nn.Linear(channels, num_classes)
    model = nn.Sequential(OrderedDict(stem=stem, **parts, **ending, classifier=classifier))
    _initialise(model)
    return model


def _initialise(model: nn.Module) -> None:
    """As He et al., 2015: normal, of variance two by the number of inputs; biases zero."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
