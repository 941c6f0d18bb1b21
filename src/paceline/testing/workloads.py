"""Workloads made for tests: small, quick, and able to fail on purpose."""

from __future__ import annotations

import os
import signal
from abc import ABC
from typing import TYPE_CHECKING, ClassVar, Literal, final

from paceline.description import Count
from paceline.workloads.base import Batch, Data, Split, Tensors, Workload

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


class _Points(Workload, ABC):
    """Two interleaved half circles, and a small network that can tell them apart."""

    default_batch: ClassVar[int] = 8
    most_threads: ClassVar[int | None] = 1

    rows: Count = 480

    def model(self) -> nn.Module:
        from torch import nn

        return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        import torch

        generator = torch.Generator().manual_seed(int(split == "test"))
        classes = torch.arange(self.rows) % 2
        angles = torch.rand(self.rows, generator=generator, dtype=torch.float64) * torch.pi
        sign = 1.0 - 2.0 * classes
        points = torch.stack((angles.cos() + 0.5 * (sign < 0), sign * angles.sin()), dim=1)
        points += 0.1 * torch.randn(points.shape, generator=generator, dtype=torch.float64)
        return Tensors(points.to(dtype), classes, origin=f"generated points ({self.rows})")

    def num_rows(self) -> int:
        return self.rows


@final
class Moons(_Points):
    """The points as they are."""


@final
class Poisoned(_Points):
    """The points, one of which stops whichever worker meets it: by raising, or by dying."""

    poison: Count = 200
    """The row that is poisoned."""
    way: Literal["raise", "die"] = "raise"

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        data = super().data(split, dtype)
        if split == "train":
            assert isinstance(data, Tensors)
            data.columns[0][self.poison] = float("inf")
        return data

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if batch[0].isinf().any():
            if self.way == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("a poisoned row")
        return super().loss(model, batch)
