"""One model twice: as a training script, and as a `Workload`. See `scripts.py`."""

from __future__ import annotations

import itertools
from typing import Literal

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import paceline


def made() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def columns() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(6400, 784, generator=generator)
    return inputs, torch.randint(10, (6400,), generator=generator)


class Mlp(paceline.Workload):
    """The same as a class."""

    default_optimizer = paceline.Sgd(lr=0.01)

    def model(self) -> nn.Module:
        return made()

    def data(self, split: Literal["train", "test"], dtype: torch.dtype) -> paceline.Data:
        del split
        inputs, classes = columns()
        return paceline.Tensors(inputs.to(dtype), classes)


def main() -> None:
    """Train as a script does; a batch is gathered at once, as a Workload's is."""
    torch.manual_seed(0)
    rows = TensorDataset(*columns())
    batches = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(rows), 64, True)
    loader = DataLoader(rows, sampler=batches, batch_size=None)
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, loader = paceline.wrap(model, optimizer, loader)
    for _ in itertools.count():
        for inputs, classes in loader:
            loss = functional.cross_entropy(model(inputs), classes)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            paceline.log(loss=loss.item())


if __name__ == "__main__":
    main()
