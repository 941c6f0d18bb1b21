"""A model of any number of bytes and layers, or of sparse features, on generated rows."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import TYPE_CHECKING, Annotated, ClassVar, final

from annotated_types import Ge, Le

from paceline.description import Bytes, Count
from paceline.errors import Problem
from paceline.training.optim import Optimizer, Sgd
from paceline.workloads.base import ALL_CORES, Batch, Data, Split, Supply, Tensors, Workload

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

FLOAT_BYTES = 4


@final
class Synthetic(Workload):
    """What transports and clusters are measured with.

    Dense by default: `layers` square layers of `bytes` (as float32) in all. With `features` it
    is a logistic regression on that many one-hot features instead, `nonzeros` of them a row.
    """

    default_optimizer: ClassVar[Optimizer] = Sgd(lr=0.01)
    default_batch: ClassVar[int] = 8
    most_threads: ClassVar[int | None] = ALL_CORES

    bytes: Bytes = 1_000_000
    layers: Count = 4
    features: Annotated[int, Ge(0)] = 0
    nonzeros: Count = 39
    rows: Count = 10_000
    data_seed: Annotated[int, Ge(0), Le(2**31 - 1)] = 0

    @property
    def name(self) -> str:
        return "synthetic"

    @property
    def num_values(self) -> int:
        return self.bytes // FLOAT_BYTES

    @property
    def width(self) -> int:
        return isqrt(self.num_values // self.layers)

    @property
    def num_classes(self) -> int:
        return min(10, self.width)

    def problems(self) -> Iterator[Problem]:
        if self.bytes % FLOAT_BYTES:
            yield Problem("workload.bytes", self.bytes, "not a multiple of 4, the size of a float")
        if not self.features and self.width < 2:
            least = self.layers * 4 * FLOAT_BYTES
            reason = f"too few for {self.layers} layers: at least {least}"
            yield Problem("workload.bytes", self.bytes, reason)
        if self.features and self.features < self.nonzeros:
            reason = f"fewer than workload.nonzeros = {self.nonzeros}"
            yield Problem("workload.features", self.features, reason)

    def model(self) -> nn.Module:
        from paceline.workloads.nets.logistic import SparseLogistic
        from paceline.workloads.nets.synthetic import Stack

        if self.features:
            return SparseLogistic(self.features)
        return Stack(self.num_values, self.layers, self.width, self.num_classes)

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        import torch

        num_rows = self.rows if split == "train" else max(1, self.rows // 10)
        generator = torch.Generator().manual_seed(self.data_seed * 2 + (split == "test"))
        if self.features:
            return _SparseRows(self, num_rows, generator, dtype)
        inputs = torch.randn(num_rows, self.width, generator=generator, dtype=dtype)
        classes = inputs[:, : self.num_classes].argmax(1)
        return Tensors(inputs, classes, origin=f"generated rows ({num_rows:,})")

    def supply(self) -> Supply:
        return Supply(data="generated rows", here="yes")

    def num_rows(self) -> int:
        return self.rows

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if not self.features:
            return super().loss(model, batch)
        from torch.nn import functional

        _, positions, labels = batch
        return functional.binary_cross_entropy_with_logits(model(positions), labels)

    @property
    def has_formula(self) -> bool:
        return self.features > 0

    def gradients(self, model: nn.Module, batch: Batch) -> float | None:
        from paceline.workloads.nets.logistic import SparseLogistic

        if not isinstance(model, SparseLogistic):
            return None
        _, positions, labels = batch
        return model.gradients(positions, labels)

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        if not self.features:
            return super().metrics(model, batch)
        _, positions, labels = batch
        right = (model(positions) > 0) == (labels > 0.5)
        return {"accuracy": right.double().mean(), "loss": self.loss(model, batch)}


@final
class _SparseRows(Data):
    """Rows of `nonzeros` features each; a label follows from the parity of the features' sum.

    The sign of a feature's planted weight is that of its parity, so the task can be learnt
    without a planted table in memory.
    """

    def __init__(
        self, workload: Synthetic, num_rows: int, generator: torch.Generator, dtype: torch.dtype
    ) -> None:
        import torch

        from paceline.training.distinct import Distinct

        self._distinct = Distinct()
        shape = (num_rows, workload.nonzeros)
        self.features = torch.randint(workload.features, shape, generator=generator)
        odd = (self.features % 2).double().mean(1)
        self.labels = (odd > 0.5).to(dtype)
        self.origin = f"generated rows ({num_rows:,})"

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Tensor) -> Batch:
        touched, positions = self._distinct(self.features.index_select(0, rows))
        return touched, positions, self.labels.index_select(0, rows)

    def touched(self, batch: Batch) -> Tensor | None:
        return batch[0]
