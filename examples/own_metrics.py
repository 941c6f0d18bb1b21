"""A workload with a loss and metrics of its own: a line through noisy points.

paceline run examples/own_metrics.py:Line --epochs 20 --target 'mae<=0.2'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from paceline import Batch, Better, Data, Tensors, Workload


@final
class Line(Workload):
    """Whatever `metrics` returns is shown everywhere, and can be a target."""

    better: ClassVar[Mapping[str, Better]] = {"mae": "lower", "r2": "higher"}

    def model(self) -> nn.Module:
        return nn.Linear(3, 1)

    def data(self, split: str, dtype: torch.dtype) -> Data:
        generator = torch.Generator().manual_seed(len(split))
        inputs = torch.randn(2000, 3, generator=generator)
        noise = 0.1 * torch.randn(2000, 1, generator=generator)
        values = inputs @ torch.tensor([[1.0], [2.0], [-1.0]]) + noise
        return Tensors(inputs.to(dtype), values.to(dtype), origin="a line, generated")

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        inputs, values = batch
        return nn.functional.mse_loss(model(inputs), values)

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        inputs, values = batch
        outputs = model(inputs)
        mse = nn.functional.mse_loss(outputs, values)
        return {
            "mae": (outputs - values).abs().mean(),
            "r2": 1 - mse / values.var(correction=0),
            "loss": mse,
        }
