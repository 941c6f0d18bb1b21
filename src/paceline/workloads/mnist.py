"""The two models that Bhat et al. and Liu et al. train on MNIST."""

from __future__ import annotations

from abc import ABC
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, final

from paceline.training.optim import Optimizer, Sgd
from paceline.workloads.base import Batch, Data, Split, Supply, Tensors, Workload
from paceline.workloads.data import catalogue, mnist
from paceline.workloads.data.images import supply_of

if TYPE_CHECKING:
    import torch
    from torch import nn


class Mnist(Workload, ABC):
    """Handwritten digits: the full set where it was fetched, else the tenth that ships with us."""

    subset: Literal["auto", "full", "tenth"] = "auto"
    data_set: Literal["mnist", "fashion-mnist"] = "mnist"
    data_dir: Path | None = None

    input_shape: ClassVar[tuple[int, ...]]

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        import torch

        # The driver has verified the bytes; six workers need not do so again.
        read = mnist.images(split, self.data_dir, self.subset, self.data_set, is_verified=True)
        pixels = torch.from_numpy(read.images).to(dtype).div_(255)
        classes = torch.from_numpy(read.labels).long()
        return Tensors(pixels.view(-1, *self.input_shape), classes, origin=read.origin)

    def example(self) -> Batch:
        import torch

        return torch.zeros(1, *self.input_shape), torch.zeros(1, dtype=torch.int64)

    def supply(self) -> Supply:
        return supply_of(catalogue.find(self.data_set), self.data_dir)

    def verify(self) -> None:
        mnist.verify(self.data_dir, self.subset, self.data_set)

    def num_rows(self) -> int:
        return mnist.num_rows("train", self.data_dir, self.subset, self.data_set)


@final
class LogisticMnist(Mnist):
    """Softmax regression on 784 pixels: 7,850 parameters."""

    default_optimizer: ClassVar[Optimizer] = Sgd(lr=0.01)
    default_batch: ClassVar[int] = 75
    most_threads: ClassVar[int | None] = 1
    input_shape: ClassVar[tuple[int, ...]] = (784,)

    @property
    def name(self) -> str:
        return "logistic-mnist"

    def model(self) -> nn.Module:
        from torch import nn

        return nn.Linear(784, 10)


@final
class LenetMnist(Mnist):
    """LeNet-5, seven layers: 61,706 parameters."""

    default_optimizer: ClassVar[Optimizer] = Sgd(lr=0.05, momentum=0.9)
    default_batch: ClassVar[int] = 64
    # A second core makes a step a tenth shorter; on a busy machine it makes it many times longer.
    most_threads: ClassVar[int | None] = 1
    input_shape: ClassVar[tuple[int, ...]] = (1, 28, 28)

    @property
    def name(self) -> str:
        return "lenet-mnist"

    def model(self) -> nn.Module:
        from paceline.workloads.nets.lenet import lenet5

        return lenet5()
