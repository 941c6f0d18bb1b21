"""Initial values that several networks share."""

from __future__ import annotations

from torch import nn


def glorot(model: nn.Module) -> None:
    """Draw weights as Glorot and Bengio (2010) did, so that layers keep the scale; biases are 0."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
