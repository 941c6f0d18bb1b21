"""VGG (Simonyan and Zisserman, 2015): configurations D and E of its table 1."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Literal

from torch import nn

from paceline.workloads.nets.initial import glorot

_WIDTHS: Final = (64, 128, 256, 512, 512)
_CONVOLUTIONS: Final = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def vgg(depth: Literal[16, 19], num_classes: int = 1000, dropout: float = 0.5) -> nn.Sequential:
    """Make five blocks of 3x3 convolutions and three fully connected layers."""
    classifier = nn.Sequential(
        nn.Linear(512 * 7 * 7, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout),
        nn.Linear(4096, num_classes),
    )
    features = nn.Sequential(*_features(_CONVOLUTIONS[depth]))
    # At 224 pixels the pooling is the identity; at other sizes it keeps the classifier as it is.
    parts = {"features": features, "pool": nn.AdaptiveAvgPool2d(7), "flatten": nn.Flatten()}
    model = nn.Sequential(OrderedDict(**parts, classifier=classifier))
    glorot(model)  # as section 3.1 has it: they need no smaller network trained first
    return model


def _features(convolutions: tuple[int, ...]) -> Iterator[nn.Module]:
    channels = 3
    for width, count in zip(_WIDTHS, convolutions, strict=True):
        for _ in range(count):
            yield nn.Conv2d(channels, width, kernel_size=3, padding=1)
            yield nn.ReLU(inplace=True)
            channels = width
        yield nn.MaxPool2d(2)
