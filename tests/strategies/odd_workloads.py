"""Workloads that do to one worker what must not go unnoticed."""

import os
import signal
import time
from typing import final

import torch
from torch import nn

from paceline.testing.workloads import _Points
from paceline.workloads.base import Batch, Data, Split, Tensors

VICTIM = 1


def is_victim() -> bool:
    """Whether this is worker 1: each worker's process draws from a seed of its own."""
    return torch.initial_seed() == 1 + VICTIM


@final
class Slow(_Points):
    """One worker takes its time."""

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        if is_victim():
            time.sleep(0.02)
        return super().loss(model, batch)


@final
class Drifting(_Points):
    """One worker's parameters are changed behind the strategy's back."""

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        if is_victim():
            with torch.no_grad():
                next(model.parameters()).add_(1e-6)
        return super().loss(model, batch)


@final
class OwnMind(_Points):
    """Every process draws initial values of its own."""

    def model(self) -> nn.Module:
        torch.manual_seed(int.from_bytes(os.urandom(4)))
        return super().model()


@final
class Broken(_Points):
    """One worker's gradients are never finite."""

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        return super().loss(model, batch) * (float("inf") if is_victim() else 1.0)


@final
class Branching(_Points):
    """A net whose parameters are neither made nor needed in the order they are used."""

    def model(self) -> nn.Module:
        return Branches()

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 2)
        self.unused = nn.Linear(5, 5)
        self.left = nn.Linear(2, 16)
        self.right = nn.Linear(2, 16)
        self.norm = nn.BatchNorm1d(16)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        self.norm.eval()  # its own statistics would make N workers differ from one
        both = self.right(points).tanh() + self.left(points).tanh()
        scores: torch.Tensor = self.head(self.norm(both))
        return scores


@final
class Twice(_Points):
    """A loss that is back-propagated in two goes."""

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        super().loss(model, batch).backward()
        return super().loss(model, batch)


@final
class Stricken(_Points):
    """One worker is killed in the middle of a push; another is in the middle of its own then."""

    stricken_at: int = 5
    """The step."""

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        loss = super().loss(model, batch)
        _strike_in_step(self.stricken_at, model)
        return loss


@final
class StrickenTally(_Points):
    """The same, and every parameter says how many pushes were applied to it."""

    stricken_at: int = 5
    """The step."""

    def model(self) -> nn.Module:
        return Tally()

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        applied: torch.Tensor = model()
        _strike_in_step(self.stricken_at, model)
        return -applied

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, torch.Tensor]:
        return {"applied": model()}


class Tally(nn.Module):
    """Two layers, whose gradients are all 1 below zero: the second's are finished first."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Summed(80), Summed(80)

    def forward(self) -> torch.Tensor:
        first: torch.Tensor = self.first()
        second: torch.Tensor = self.second()
        return first + second


class Summed(nn.Module):
    def __init__(self, num_values: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(num_values))

    def forward(self) -> torch.Tensor:
        return self.values.sum()


_STEPS: dict[nn.Module, int] = {}


def _strike_in_step(step: int, model: nn.Module) -> None:
    if torch.is_grad_enabled():
        made = _STEPS.setdefault(model, 0)
        _STEPS[model] = made + 1
        # The first layer's gradient is computed last: all others have left by then.
        if made + 1 == step:
            next(model.parameters()).register_hook(_strike)


_STRUCK: list[float] = []


def _strike(_: torch.Tensor) -> None:
    if _STRUCK:
        return
    _STRUCK.append(time.monotonic())
    if is_victim():
        time.sleep(0.3)  # until the others' chunks are in too
        os.kill(os.getpid(), signal.SIGKILL)
    if torch.initial_seed() == 2 + VICTIM:
        time.sleep(1.2)  # beyond the death of the other


@final
class Ledger(_Points):
    """One parameter per row: after the run it says how many times the row was trained on.

    Workers die by themselves, each at the end of the forward pass of a batch of its own: `dies`
    names the worker and how many batches it has finished then.
    """

    dies: str = ""
    """Such as `1@12,2@40`."""

    def model(self) -> nn.Module:
        return Counts(self.rows)

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        return Tensors(torch.arange(self.rows), origin="row numbers")

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        counted: torch.Tensor = model(batch[0])
        made = _STEPS.setdefault(model, 0)
        _STEPS[model] = made + 1
        time.sleep(0.003)  # so that no worker is far ahead of who dies
        for each in filter(None, self.dies.split(",")):
            worker, at = map(int, each.split("@"))
            if torch.initial_seed() == 1 + worker and made == at:
                os.kill(os.getpid(), signal.SIGKILL)
        return -counted.sum()

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, torch.Tensor]:
        return {"counted": model(batch[0]).mean()}


class Counts(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.counts = nn.Parameter(torch.zeros(rows))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.counts[rows]
