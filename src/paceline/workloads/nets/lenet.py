"""LeNet-5 (LeCun, Bottou, Bengio and Haffner, 1998), with today's rectifiers and max-pooling."""

from __future__ import annotations

from torch import nn


def lenet5(num_classes: int = 10) -> nn.Sequential:
    """Make the seven layers: three convolutions, two poolings, two fully connected."""
    return nn.Sequential(
        nn.Conv2d(1, 6, kernel_size=5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, kernel_size=5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 120, kernel_size=5),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, num_classes),
    )
