"""A workload of one's own: which of two moons does a point lie on?

paceline run examples/own_workload.py:TwoMoons --epochs 30 --set workload.hidden=64
"""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import nn

from paceline import Data, Optimizer, Sgd, Tensors, Workload


@final
class TwoMoons(Workload):
    """Model and data are all that must be given; cross-entropy and accuracy are there already."""

    default_optimizer: ClassVar[Optimizer] = Sgd(lr=0.1, momentum=0.9)
    default_batch: ClassVar[int] = 32

    hidden: int = 32
    noise: float = 0.1

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(2, self.hidden), nn.Tanh(), nn.Linear(self.hidden, 2))

    def data(self, split: str, dtype: torch.dtype) -> Data:
        num_rows = 2000 if split == "train" else 500
        generator = torch.Generator().manual_seed(len(split))
        moon = torch.arange(num_rows) % 2
        angle = torch.rand(num_rows, generator=generator) * torch.pi
        points = torch.stack([angle.cos() + moon, angle.sin() * (1 - 2 * moon) + 0.5 * moon], dim=1)
        points += self.noise * torch.randn(points.shape, generator=generator)
        return Tensors(points.to(dtype), moon, origin="two moons, generated")
