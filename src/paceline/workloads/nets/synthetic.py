"""Networks of any size, to measure transports and clusters with."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn


@final
class Stack(nn.Module):
    """Square residual layers with exactly `num_values` parameters in all.

    What the squares leave over is one more parameter, a vector whose mean scales the output, so
    that every byte asked for is a byte with a gradient. (Adding it would not do: cross-entropy
    does not see what is added to all classes alike.)
    """

    def __init__(self, num_values: int, num_layers: int, width: int, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(num_layers))
        num_left = num_values - num_layers * width * width
        self.rest = nn.Parameter(torch.zeros(num_left)) if num_left else None

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = inputs
        for layer in self.layers:
            hidden = hidden + torch.tanh(layer(hidden))
        outputs = hidden[:, : self.num_classes]
        return outputs if self.rest is None else outputs * (1 + self.rest.mean())
