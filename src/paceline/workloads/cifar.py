"""The convolutional networks of Liu et al. and Shi on CIFAR-10, and one small enough to learn."""

from __future__ import annotations

from abc import ABC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, final

from annotated_types import Ge

from paceline.training.optim import Fraction, Optimizer, Sgd
from paceline.workloads.base import Data, Split, Supply
from paceline.workloads.data import catalogue, cifar
from paceline.workloads.data.images import supply_of
from paceline.workloads.images import ImageWorkload

if TYPE_CHECKING:
    import torch
    from torch import nn

# Of the training pictures, by channel.
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2470, 0.2435, 0.2616)


class Cifar10(ImageWorkload, ABC):
    """Photographs of ten kinds, 32x32: all 60,000, in memory as bytes."""

    default_batch: ClassVar[int] = 32

    num_classes: Annotated[int, Ge(10)] = 10
    """More than the data's ten give the network the size it has elsewhere."""
    data_dir: Path | None = None

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        from paceline.workloads.data.pictures import Format, Pictures

        # The driver has verified the bytes; six workers need not do so again.
        images = cifar.images(split, self.data_dir, is_verified=True)
        form = Format(
            size=self.image_size,
            mean=MEAN,
            deviation=DEVIATION,
            dtype=dtype,
            channels_last=self.channels_last,
        )
        return Pictures(images, form, augment=self.augment)

    def supply(self) -> Supply:
        return supply_of(catalogue.CIFAR10, self.data_dir)

    def verify(self) -> None:
        cifar.verify(self.data_dir)

    def num_rows(self) -> int:
        return cifar.num_rows("train", self.data_dir)


@final
class AlexnetCifar10(Cifar10):
    """AlexNet in one column, on pictures resized to 64 pixels, since it needs 63."""

    default_optimizer: ClassVar[Optimizer] = Sgd(lr=0.01, momentum=0.9, weight_decay=5e-4)

    image_size: Annotated[int, Ge(63)] = 64
    dropout: Fraction = 0.5

    @property
    def name(self) -> str:
        return "alexnet-cifar10"

    def network(self) -> nn.Module:
        from paceline.workloads.nets.alexnet import alexnet

        return alexnet(self.num_classes, self.dropout)


@final
class VggCifar10(Cifar10):
    """VGG with 16 or 19 layers that have weights."""

    default_optimizer: ClassVar[Optimizer] = Sgd(lr=0.01, momentum=0.9, weight_decay=5e-4)

    depth: Literal[16, 19] = 16
    dropout: Fraction = 0.5

    @property
    def name(self) -> str:
        return f"vgg{self.depth}-cifar10"

    def network(self) -> nn.Module:
        from paceline.workloads.nets.vgg import vgg

        return vgg(self.depth, self.num_classes, self.dropout)


@final
class ResnetCifar10(Cifar10):
    """A residual network as for ImageNet, of 50 or 152 layers."""

    default_optimizer: ClassVar[Optimizer] = Sgd(lr=0.05, momentum=0.9, weight_decay=1e-4)

    depth: Literal[50, 152] = 50

    @property
    def name(self) -> str:
        return f"resnet{self.depth}-cifar10"

    def network(self) -> nn.Module:
        from paceline.workloads.nets.resnet import resnet

        return resnet(self.depth, self.num_classes)


@final
class Resnet20Cifar10(Cifar10):
    """The residual network that was made for CIFAR-10, of 20 layers: 269,722 parameters."""

    default_optimizer: ClassVar[Optimizer] = Sgd(lr=0.05, momentum=0.9, weight_decay=1e-4)
    default_batch: ClassVar[int] = 128

    channels_last: bool = True

    @property
    def name(self) -> str:
        return "resnet20-cifar10"

    def network(self) -> nn.Module:
        from paceline.workloads.nets.resnet import cifar_resnet

        return cifar_resnet(20, self.num_classes)
