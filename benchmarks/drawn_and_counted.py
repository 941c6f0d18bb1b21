"""A small network with all that is easily lost on the way: dropout, batch norm, frozen values."""

from __future__ import annotations

from typing import final

import torch
from torch import nn

from paceline import Data, Workload
from paceline.workloads.base import Split
from paceline.workloads.mnist import LenetMnist


@final
class SmallCnn(Workload):
    """What it draws (dropout) and counts (batch norm) must be the same too, run after run."""

    def model(self) -> nn.Module:
        model = nn.Sequential(
            nn.Conv2d(1, 4, 5, stride=2),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(4 * 6 * 6, 10),
        )
        model[0].bias.requires_grad_(False)
        return model

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        return LenetMnist(subset="tenth").data(split, dtype)
