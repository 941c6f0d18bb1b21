"""Pictures as a network takes them: of its size, normalised, laid out as it computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from paceline.workloads.base import Batch, Data
from paceline.workloads.data.augment import Changes, changes, crops, mirror
from paceline.workloads.data.folder import Files, decoded
from paceline.workloads.data.images import ByteArray, Images
from paceline.workloads.data.stream import prepared
from paceline.workloads.order import Draw, Order

# By how much the CIFAR-10 pictures are padded before they are cut: He et al., section 4.2.
_PADDING = 4


@final
@dataclass(frozen=True, kw_only=True)
class Format:
    """What becomes of the bytes of a picture."""

    size: int
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    dtype: torch.dtype
    channels_last: bool

    def tensor(self, pixels: ByteArray) -> Tensor:
        """Make network input of [n, 3, height, width] bytes."""
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        values = torch.from_numpy(pixels).to(self.dtype, memory_format=layout)
        scale, shift = self._scale_and_shift()
        values.mul_(scale).add_(shift)
        if values.shape[-1] == self.size == values.shape[-2]:
            return values
        return functional.interpolate(values, size=self.size, mode="bilinear", antialias=False)

    def _scale_and_shift(self) -> tuple[Tensor, Tensor]:
        mean, deviation = (
            torch.tensor(each, dtype=self.dtype).view(3, 1, 1)
            for each in (self.mean, self.deviation)
        )
        return 1 / (255 * deviation), -mean / deviation


@final
class Pictures(Data):
    """Pictures in memory, as bytes; training batches are made ahead, on a thread of their own."""

    def __init__(self, images: Images, form: Format, *, augment: bool) -> None:
        self._pixels = images.images
        self._classes = torch.from_numpy(images.labels).long()
        self._form = form
        self._augment = augment
        self.origin = images.origin

    def __len__(self) -> int:
        return len(self._classes)

    def take(self, rows: Tensor) -> Batch:
        return self._form.tensor(self._pixels[rows.numpy()]), self._classes.index_select(0, rows)

    def batches(self, order: Order, rank: int) -> Iterator[Batch]:
        def changed(draw: Draw) -> Batch:
            drawn = changes(order.seed, draw.position, len(draw.rows))
            pixels = crops(self._pixels[draw.rows.numpy()], _PADDING, drawn)
            return self._form.tensor(pixels), self._classes.index_select(0, draw.rows)

        if self._augment:
            return prepared(changed, order.draws(rank))
        return prepared(self.take, order.batches(rank))


@final
class FolderPictures(Data):
    """Pictures in files, each read and decoded when its turn comes, on threads."""

    def __init__(
        self, files: Files, form: Format, *, augment: bool, threads: int, origin: str
    ) -> None:
        self._paths = files.paths
        self._classes = torch.tensor(files.classes)
        self._form = form
        self._augment = augment
        self._threads = threads
        self.origin = origin

    def __len__(self) -> int:
        return len(self._paths)

    def take(self, rows: Tensor) -> Batch:
        return self._batch(rows, _middle(len(rows)))

    def batches(self, order: Order, rank: int) -> Iterator[Batch]:
        def made(draw: Draw) -> Batch:
            count = len(draw.rows)
            drawn = changes(order.seed, draw.position, count) if self._augment else _middle(count)
            return self._batch(draw.rows, drawn)

        return prepared(made, order.draws(rank), threads=self._threads, ahead=2 * self._threads)

    def _batch(self, rows: Tensor, drawn: Changes) -> Batch:
        places = zip(rows.tolist(), drawn.down, drawn.right, strict=True)
        pixels = [decoded(self._paths[row], self._form.size, *at) for row, *at in places]
        return self._form.tensor(mirror(np.stack(pixels), drawn)), self._classes[rows]


def _middle(count: int) -> Changes:
    """Cut out the middle, and mirror nothing."""
    half = np.full(count, 0.5)
    return Changes(half, half, np.zeros(count, dtype=np.bool_))
