"""Logistic regression on sparse rows of the user's own files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from paceline.description import Bytes, Count
from paceline.errors import DataError
from paceline.training.optim import Adagrad, Optimizer
from paceline.workloads.base import Batch, Data, Split, Workload
from paceline.workloads.data.sources.base import Progress

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from paceline.workloads.data.sparse.rowset import RowSet
    from paceline.workloads.nets.logistic import SparseLogistic


class SparseLogisticFiles(Workload, ABC):
    """A weight for each feature; rows have few features out of very many."""

    default_optimizer: ClassVar[Optimizer] = Adagrad(lr=0.05)
    default_batch: ClassVar[int] = 100
    most_threads: ClassVar[int | None] = 1

    train: Path | None = None  # type: ignore[assignment]  # see `loop_of`
    """A file, a folder of files, a pattern, or a folder that `paceline data convert` wrote."""
    test: Path | None = None
    """The same; if left out, the last tenth of the training rows is held back."""
    test_rows: Count = 100_000
    """The largest number of test rows."""
    bad_rows: Literal["stop", "skip"] = "stop"
    memory_bytes: Bytes = 32_000_000
    """Files of up to this size together are read into memory; larger ones are streamed."""
    data_dir: Path | None = None

    @property
    def test_batch(self) -> int:
        return 2000

    @abstractmethod
    def rows_of(self, path: Path, progress: Progress | None = None) -> RowSet:
        """Open the rows of a path."""

    @abstractmethod
    def num_weights(self) -> int:
        """How many weights the model has."""

    @abstractmethod
    def paths(self) -> tuple[Path, Path | None]:
        """Say where training and test rows are; the latter None: among the former."""

    def given(self) -> tuple[Path | None, Path | None]:
        """Give the user's own paths, `~` resolved."""
        train, test = (path and path.expanduser() for path in (self.train, self.test))
        return train, test

    def origin(self, own: str) -> str:
        """Say where rows come from; `own` is what their files say."""
        return own

    def model(self) -> nn.Module:
        from paceline.workloads.nets.logistic import SparseLogistic

        return SparseLogistic(self.num_weights())

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        rows, part = self._part(split)
        data = rows.data(part, dtype, for_training=split == "train")
        data.origin = self.origin(data.origin)
        return data

    def num_rows(self) -> int:
        return len(self._part("train")[1])

    def make_rows(self, progress: Progress) -> None:
        """Make the rows, where they are not the user's own."""

    def prepare(self, progress: Progress) -> None:
        self.make_rows(progress)
        for path in self.paths():
            if path is not None:
                self.rows_of(path, progress)

    def verify(self) -> None:
        for path in self.paths():
            if path is not None:
                self.rows_of(path).check()
        self.num_weights()

    def _part(self, split: Split) -> tuple[RowSet, range]:
        """Say which rows of which set are of a split."""
        train_path, test_path = self.paths()
        if split == "test" and test_path is not None:
            rows = self.rows_of(test_path)
            return rows, range(min(self.test_rows, rows.num_rows))
        rows = self.rows_of(train_path)
        if test_path is not None:
            return rows, range(rows.num_rows)
        num_test = min(self.test_rows, max(1, rows.num_rows // 10))
        if rows.num_rows < 2:
            raise DataError(f"{train_path}: one row is too few to train and to test with")
        held_back = rows.num_rows - num_test
        return rows, range(held_back) if split == "train" else range(held_back, rows.num_rows)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        from torch.nn import functional

        _, positions, labels, *values = batch
        logits = model(positions, *values)
        total = functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
        return total / max(1, len(labels))  # of a batch whose rows were all bad, nothing

    def gradients(self, model: nn.Module, batch: Batch) -> float | None:
        _, positions, labels, *values = batch
        return None if values else cast("SparseLogistic", model).gradients(positions, labels)

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        from torch.nn import functional

        _, positions, labels, *values = batch
        logits = model(positions, *values)
        return {
            "accuracy": ((logits > 0) == (labels > 0.5)).double().mean(),
            "loss": functional.binary_cross_entropy_with_logits(logits, labels),
            "scores": logits,
            "labels": labels,
        }

    def joined_metrics(self, columns: Mapping[str, Tensor]) -> dict[str, float]:
        from paceline.workloads.ranking import area_under_curve

        scores, labels = columns["scores"].numpy(), columns["labels"].numpy()
        positive = float(labels.mean())
        return {
            "larger_class": max(positive, 1 - positive),
            "auc": area_under_curve(scores, labels),
        }
