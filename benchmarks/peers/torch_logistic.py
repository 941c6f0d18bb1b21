"""What the peers on torch train: 784 x 10 on shuffled rows that lie in memory."""

from __future__ import annotations

from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn

from peers import common

NUM_VALUES = (common.NUM_PIXELS + 1) * common.NUM_CLASSES


@final
class Rows:
    """All of MNIST, a batch at a time, in an order of its own each epoch."""

    def __init__(self, folder: Path, seed: int) -> None:
        images, labels = common.mnist(folder)
        self._images, self._labels = torch.from_numpy(images), torch.from_numpy(labels)
        self._generator = torch.Generator().manual_seed(seed)
        self._batches: list[Tensor] = []

    def batch(self) -> tuple[Tensor, Tensor]:
        if not self._batches:
            order = torch.randperm(common.NUM_ROWS, generator=self._generator)
            self._batches = list(order.split(common.BATCH))  # type: ignore[no-untyped-call]
        rows = self._batches.pop()
        return self._images.index_select(0, rows), self._labels.index_select(0, rows)


@final
class Logistic:
    """A replica whose parameters and gradients are one vector each: a push is one tensor."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._rows = Rows(folder, seed)
        self._model = nn.Linear(common.NUM_PIXELS, common.NUM_CLASSES)
        self.parameters, self.gradients = torch.zeros(NUM_VALUES), torch.zeros(NUM_VALUES)
        start = 0
        for each in self._model.parameters():
            stop = start + each.numel()
            each.data = self.parameters[start:stop].view(each.shape)
            each.grad = self.gradients[start:stop].view(each.shape)
            start = stop

    def compute(self) -> None:
        """Lay the gradients of the next batch into the vector."""
        images, labels = self._rows.batch()
        self.gradients.zero_()
        loss = nn.functional.cross_entropy(self._model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
