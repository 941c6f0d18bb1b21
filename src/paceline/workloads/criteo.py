"""Click prediction on Criteo's display advertising rows: a table of 33,762,578 weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, final

from annotated_types import Ge, Le

from paceline.description import Count
from paceline.errors import Problem, SpecError
from paceline.workloads.base import Batch, Supply
from paceline.workloads.data.sources.base import Progress
from paceline.workloads.sparse import SparseLogisticFiles

if TYPE_CHECKING:
    from paceline.workloads.data.sparse.generate import Generated
    from paceline.workloads.data.sparse.rowset import RowSet

NUM_FEATURES: Final = 33_762_578
NUM_COLUMNS: Final = 39
_LARGEST: Final = 2**31 - 1


@final
class LogisticCriteo(SparseLogisticFiles):
    """Logistic regression on one-hot features: 33,762,578 weights, of which a row touches 39."""

    source: Literal["files", "generated"] = "files"
    """`generated`: rows of the same shape with a planted model, made once and kept as files."""
    num_features: Annotated[int, Ge(1), Le(_LARGEST)] | None = None
    """Number of hashed features; with a vocabulary, the number of its features."""
    rows: Count = 1_000_000
    """How many training rows are generated."""
    data_seed: Annotated[int, Ge(0), Le(2**20)] = 0

    @property
    def name(self) -> str:
        return "logistic-criteo"

    def problems(self) -> Iterator[Problem]:
        if self.source == "generated":
            for field, path in (("train", self.train), ("test", self.test)):
                if path is not None:
                    yield Problem(f"workload.{field}", str(path), "workload.source is generated")

    def paths(self) -> tuple[Path, Path | None]:
        if self.source == "generated":
            generated = self._generated()
            return generated.train, generated.test
        train, test = self.given()
        if train is None:
            reason = (
                "must be given: a file of Criteo's rows, a folder of them, or one that `paceline "
                "data convert` wrote; or workload.source=generated for rows of the same shape"
            )
            raise SpecError([Problem("workload.train", None, reason)])
        return train, test

    def supply(self) -> Supply:
        if self.source == "generated":
            is_here = (self._generated().folder / "generated.json").is_file()
            return Supply(data="generated rows", here="yes" if is_here else "made when needed")
        if self.train is None:
            remedy = "--set workload.train=FILE, or workload.source=generated"
            return Supply(data="Criteo's rows, your own file", remedy=remedy)
        return Supply(
            data=str(self.train), here="yes" if self.train.expanduser().exists() else "no"
        )

    def example(self) -> Batch:
        import torch

        positions = torch.arange(NUM_COLUMNS)
        return [positions, positions.view(1, -1), torch.zeros(1)]

    def num_weights(self) -> int:
        from paceline.workloads.data.sparse import binary

        train, _ = self.given()
        if self.num_features is None and train and binary.is_converted(train):
            known = binary.described(train)
            if known.coding == "vocabulary" and known.num_features is not None:
                return known.num_features
        return self.num_features or NUM_FEATURES

    def rows_of(self, path: Path, progress: Progress | None = None) -> RowSet:
        from paceline.workloads.data.sparse import binary, features, files, parsers
        from paceline.workloads.data.sparse.rowset import Converted, Unconverted

        num_weights = self.num_weights()
        if binary.is_converted(path):
            return Converted(path, ("criteo", "tfrecord"), num_weights)
        opened = files.opened(path, self.data_dir, progress)
        is_text = parsers.kind_of_rows(opened[0]) != "tfrecord"
        return Unconverted(
            opened,
            parsers.criteo_text(features.hashed) if is_text else parsers.tf_examples(num_weights),
            bad_rows=self.bad_rows,
            most_bytes=self.memory_bytes,
            hashed_to=num_weights if is_text else None,
            kept=self._kept(path),
        )

    def _kept(self, path: Path) -> Path | None:
        """Where the rows of a path are kept converted, if they are."""
        from paceline.workloads.data.sparse import binary

        if self.source != "generated" or path != self._generated().train:
            return None
        kept = self._generated().kept
        return kept if binary.is_converted(kept) else None

    def make_rows(self, progress: Progress) -> None:
        if self.source == "generated":
            self._generated().make(progress)

    def origin(self, own: str) -> str:
        if self.source == "files":
            return own
        return f"generated rows, {own}; the planted model has an AUC of {self.planted_auc():.4f}"

    def planted_auc(self) -> float:
        """Give the AUC of the model that labelled generated rows: the best that can be learnt."""
        return self._generated().facts().planted_auc

    def _generated(self) -> Generated:
        from paceline.workloads.data.sparse.generate import Generated

        return Generated(
            num_rows=self.rows,
            num_test=min(self.test_rows, max(1, self.rows // 10)),
            num_features=self.num_weights(),
            seed=self.data_seed,
            data_dir=self.data_dir,
        )
