"""Any folder of pictures, one folder a class, read while training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, final

from annotated_types import Ge, Gt, Lt

from paceline.description import Count
from paceline.errors import DataError, Problem
from paceline.training.optim import Optimizer, Sgd
from paceline.workloads.base import Data, Split, Supply
from paceline.workloads.data.folder import Files, class_names, files_of
from paceline.workloads.images import ImageWorkload

if TYPE_CHECKING:
    import torch
    from torch import nn

# Of ImageNet's pictures, by channel: near enough for any photographs.
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


@final
class ImageFolder(ImageWorkload):
    """Pictures in `folder`/class/, or in `folder`/train/class/ and `folder`/test/class/.

    Each is read and decoded when its turn comes, on threads, so a set may be of any size.
    """

    default_optimizer: ClassVar[Optimizer] = Sgd(lr=0.01, momentum=0.9, weight_decay=1e-4)
    default_batch: ClassVar[int] = 32

    folder: Path | None = None
    net: Literal["alexnet", "vgg16", "vgg19", "resnet50", "resnet152", "resnet20"] = "resnet50"
    image_size: Annotated[int, Ge(32)] = 224
    channels_last: bool = True
    test_share: Annotated[float, Gt(0), Lt(1)] = 0.1
    """The fraction of the pictures kept for tests, where there is no test folder."""
    load_threads: Count = 2

    @property
    def name(self) -> str:
        return "imagefolder"

    def problems(self) -> Iterator[Problem]:
        if self.folder is None:
            reason = "must be given: the folder with a folder of pictures for each class"
            yield Problem("workload.folder", None, reason)
        if self.net == "alexnet" and self.image_size < 63:
            yield Problem("workload.image_size", self.image_size, "too small for alexnet: 63")

    def network(self) -> nn.Module:
        num_classes = len(class_names(self._folder()))
        if self.net == "alexnet":
            from paceline.workloads.nets.alexnet import alexnet

            return alexnet(num_classes)
        if self.net in {"vgg16", "vgg19"}:
            from paceline.workloads.nets.vgg import vgg

            return vgg(16 if self.net == "vgg16" else 19, num_classes)
        from paceline.workloads.nets.resnet import cifar_resnet, resnet

        if self.net == "resnet20":
            return cifar_resnet(20, num_classes)
        return resnet(50 if self.net == "resnet50" else 152, num_classes)

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        from paceline.workloads.data.pictures import FolderPictures, Format

        files = self._files(split)
        form = Format(
            size=self.image_size,
            mean=MEAN,
            deviation=DEVIATION,
            dtype=dtype,
            channels_last=self.channels_last,
        )
        origin = (
            f"{self._folder().name}, {len(files.paths):,} pictures of {len(files.names)} classes"
        )
        return FolderPictures(
            files, form, augment=self.augment, threads=self.load_threads, origin=origin
        )

    def supply(self) -> Supply:
        if self.folder is None:
            return Supply(data="your own folder", remedy="--set workload.folder=FOLDER")
        return Supply(data=str(self.folder), here="yes" if self.folder.is_dir() else "no")

    def verify(self) -> None:
        self._files("test")

    def num_rows(self) -> int:
        return len(self._files("train").paths)

    def _files(self, split: Split) -> Files:
        return files_of(self._folder(), split, self.test_share)

    def _folder(self) -> Path:
        if self.folder is None:
            raise DataError("imagefolder: no folder of pictures is given")
        return self.folder
