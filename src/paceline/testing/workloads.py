"""Workloads made for tests: small, quick, and able to fail on purpose."""

from __future__ import annotations

import os
import signal
import time
from abc import ABC
from collections.abc import Iterator
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, final

from annotated_types import Ge

from paceline.description import Bytes, Count, NotNegativeInt
from paceline.training.optim import Optimizer, Sgd
from paceline.workloads.base import Batch, Data, Split, Tensors, Workload
from paceline.workloads.order import Order

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


@final
class Napping(_Points):
    """The points, one of which holds up whichever worker meets it until a file is there."""

    until: str
    """The file to wait for."""
    place: Literal["data", "loss", "metrics"] = "loss"
    way: Literal["sleep", "count"] = "sleep"
    """`count` stays inside of a C function that lets no other thread run."""

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        if self.place == "data":
            self._nap()
        data = super().data(split, dtype)
        assert isinstance(data, Tensors)
        data.columns[0][200] = 7.0
        return data

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if self.place == "loss" and (batch[0] == 7.0).any():
            self._nap()
        return super().loss(model, batch)

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        if self.place == "metrics":
            self._nap()
        return super().metrics(model, batch)

    def _nap(self) -> None:
        while not Path(self.until).exists():
            if self.way == "sleep":
                time.sleep(0.2)
            else:
                sum(range(30_000_000))


@final
class Flawed(_Points):
    """The points, some of which make the gradient of one value NaN, infinite or too large."""

    flaw: Literal["NaN", "infinite", "too large"] = "NaN"
    flawed_rows: Count = 1
    """How many rows, from the first on, are flawed."""

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        import torch

        data = super().data(split, dtype)
        assert isinstance(data, Tensors)
        largest = float(torch.finfo(dtype).max)
        factors = {"NaN": float("nan"), "infinite": float("inf"), "too large": largest / 1e6}
        added = torch.zeros(self.rows, dtype=dtype)
        if split == "train":
            added[: self.flawed_rows] = factors[self.flaw]
        return Tensors(*data.columns, added, origin=data.origin)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        loss = super().loss(model, batch[:2])
        added = batch[2].mean()
        if added == 0:
            return loss
        *_, bias = model.parameters()
        return loss + added * bias[0]

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        return super().metrics(model, batch[:2])


_Milliseconds = Annotated[float, Ge(0)]


@final
class Burdened(Workload):
    """A stack of layers of any size whose steps take as long as they are told to.

    Time is spent asleep, as on a device of the worker's own: it takes no processor from others, so
    a small machine can carry several. What is slow is really slow, for one worker or for all.
    """

    default_optimizer: ClassVar[Optimizer] = Sgd(lr=0.001)
    default_batch: ClassVar[int] = 8
    most_threads: ClassVar[int | None] = 1

    bytes: Bytes = 40_000
    layers: Count = 4
    load_ms: _Milliseconds = 0.0
    """How long each worker takes for a batch."""
    compute_ms: _Milliseconds = 0.0
    """How long the backward pass of a row takes, more than its arithmetic."""
    slow_rank: NotNegativeInt = 0
    slow_load_ms: _Milliseconds = 0.0
    """How much longer that worker takes for a batch."""
    slow_backward_ms: _Milliseconds = 0.0
    """How much longer its backward pass takes."""
    read_bytes: Annotated[int, Ge(0)] = 0
    """How much of `file` a worker reads for a batch, from the disk and not from memory."""
    file: str = ""
    rows: Count = 4096

    def model(self) -> nn.Module:
        from paceline.workloads.nets.synthetic import Stack

        return Stack(self._num_values, self.layers, self._width, min(10, self._width))

    @property
    def _num_values(self) -> int:
        return self.bytes // 4

    @property
    def _width(self) -> int:
        return isqrt(self._num_values // self.layers)

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        import torch

        generator = torch.Generator().manual_seed(int(split == "test"))
        inputs = torch.randn(self.rows, self._width, generator=generator, dtype=dtype)
        classes = inputs[:, : min(10, self._width)].argmax(1)
        return _Delayed(self, Tensors(inputs, classes, origin=f"generated rows ({self.rows:,})"))

    def num_rows(self) -> int:
        return self.rows

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        loss = super().loss(model, batch[:2])
        if len(batch) == 2:  # an evaluation
            return loss
        seconds = batch[2].item()
        if seconds and loss.requires_grad:
            loss.register_hook(lambda _: time.sleep(seconds))  # type: ignore[no-untyped-call]
        return loss

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        return super().metrics(model, batch[:2])


@final
class _Delayed(Data):
    """Rows that come late, with a last column that says how long the backward pass is to take."""

    def __init__(self, workload: Burdened, rows: Tensors) -> None:
        self._workload = workload
        self._rows = rows
        self.origin = rows.origin

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: Tensor) -> Batch:
        return self._rows.take(rows)

    def batches(self, order: Order, rank: int) -> Iterator[Batch]:
        import torch

        workload = self._workload
        is_slow = rank == workload.slow_rank
        load_s = (workload.load_ms + is_slow * workload.slow_load_ms) / 1e3
        backward_ms = workload.compute_ms * order.batch + is_slow * workload.slow_backward_ms
        backward_s = torch.tensor(backward_ms / 1e3)
        for number, rows in enumerate(order.batches(rank), start=order.start):
            if load_s:
                time.sleep(load_s)
            if workload.read_bytes:
                piece = number * order.num_workers + rank  # nobody else's: it would be in memory
                _read_from_disk(Path(workload.file), workload.read_bytes, piece)
            yield [*self._rows.take(rows), backward_s]


def _read_from_disk(path: Path, num_bytes: int, piece: int) -> None:
    """Read a piece of a file anew, as one that is larger than memory would be."""
    with path.open("rb", buffering=0) as file:
        pieces = max(1, os.fstat(file.fileno()).st_size // num_bytes)
        start = piece % pieces * num_bytes
        # All of it: the kernel keeps pages in large pieces, and drops no part of one.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), num_bytes, start)
