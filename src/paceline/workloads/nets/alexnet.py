"""AlexNet in one column (Krizhevsky, 2014), after the two-column one (Krizhevsky et al., 2012).

The single column is the one that has 233 MiB and 0.7 billion multiply-adds; layers, normalisation
and dropout are those of 2012. Its initial values are not: see `glorot`.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from paceline.workloads.nets.initial import glorot

LEAST_SIZE = 63
"""The smallest picture that the third pooling leaves something of."""


def alexnet(num_classes: int = 1000, dropout: float = 0.5) -> nn.Sequential:
    """Make five convolutions and three fully connected layers: 61,100,840 parameters."""
    features = nn.Sequential(
        nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
        nn.ReLU(inplace=True),
        _response_norm(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(64, 192, kernel_size=5, padding=2),
        nn.ReLU(inplace=True),
        _response_norm(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(192, 384, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(256, 256, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2),
    )
    classifier = nn.Sequential(
        nn.Dropout(dropout),
        nn.Linear(256 * 6 * 6, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, num_classes),
    )
    # At 224 pixels the pooling is the identity; at other sizes it keeps the classifier as it is.
    parts = {"features": features, "pool": nn.AdaptiveAvgPool2d(6), "flatten": nn.Flatten()}
    model = nn.Sequential(OrderedDict(**parts, classifier=classifier))
    # With those of 2012, normal with deviation 0.01 and some biases 1, it does not learn CIFAR-10
    # at batch 32: the loss goes to 34, and then stays where ten classes are guessed.
    glorot(model)
    return model


def _response_norm() -> nn.LocalResponseNorm:
    # The paper's alpha is 1e-4 a neighbour; torch divides its own by their number.
    return nn.LocalResponseNorm(5, alpha=5e-4, beta=0.75, k=2.0)
