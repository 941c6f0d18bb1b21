"""Logistic regression on features of which a row has few."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from paceline.rows import Rows


@final
class SparseLogistic(nn.Module):
    """One weight a feature, kept in a table of rows, and a bias."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.weights = Rows(num_features)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(
        self, positions: Tensor, values: Tensor | None = None, bags: Tensor | None = None
    ) -> Tensor:
        summed: Tensor = self.weights(positions, values, bags)
        return summed.squeeze(1) + self.bias
