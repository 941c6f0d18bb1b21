"""AlexNet in one column (Krizhevsky, 2014), after the two-column one (Krizhevsky et al., 2012).

The single column is the one that has 233 MiB and 0.7 billion multiply-adds; layers, normalisation,
dropout and initial values are those of 2012.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

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
    _initialise(model)
    return model


def _response_norm() -> nn.LocalResponseNorm:
    # The paper's alpha is 1e-4 a neighbour; torch divides its own by their number.
    return nn.LocalResponseNorm(5, alpha=5e-4, beta=0.75, k=2.0)


def _initialise(model: nn.Module) -> None:
    """Section 5: normal weights of deviation 0.01; biases 1 in some layers, to start them off."""
    layers = [each for each in model.modules() if isinstance(each, nn.Conv2d | nn.Linear)]
    conv1, _, conv3, *_, last = layers
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.01)
        assert layer.bias is not None
        nn.init.constant_(layer.bias, 0.0 if layer in {conv1, conv3, last} else 1.0)
