"""Logistic regression on libsvm files: any two-class set of sparse rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, final

from annotated_types import Ge, Le

from paceline.errors import DataError, Problem, SpecError
from paceline.workloads.base import Supply
from paceline.workloads.data.sources.base import Progress
from paceline.workloads.sparse import SparseLogisticFiles

if TYPE_CHECKING:
    from paceline.workloads.data.sparse.rowset import RowSet

_LARGEST: Final = 2**31 - 1


@final
class LogisticLibsvm(SparseLogisticFiles):
    """Logistic regression on rows of `label index:value …`."""

    num_features: Annotated[int, Ge(1), Le(_LARGEST)] | None = None
    """If left out, as many as the rows have; large files that are streamed do not tell."""

    @property
    def name(self) -> str:
        return "logistic-libsvm"

    def paths(self) -> tuple[Path, Path | None]:
        train, test = self.given()
        if train is None:
            reason = "must be given: a libsvm file, or a folder that `paceline data convert` wrote"
            raise SpecError([Problem("workload.train", None, reason)])
        return train, test

    def supply(self) -> Supply:
        if self.train is None:
            remedy = "--set workload.train=FILE"
            return Supply(data="libsvm rows, your own file", remedy=remedy)
        return Supply(
            data=str(self.train), here="yes" if self.train.expanduser().exists() else "no"
        )

    def num_weights(self) -> int:
        if self.num_features is not None:
            return self.num_features
        found = [self.rows_of(path).num_features for path in self.paths() if path is not None]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            remedy = "give workload.num_features, or convert it with `paceline data convert`"
            raise DataError(f"{self.train}: too large to be read for its features; {remedy}")
        return max(1, *known)

    def rows_of(self, path: Path, progress: Progress | None = None) -> RowSet:
        from paceline.workloads.data.sparse import binary, files, parsers
        from paceline.workloads.data.sparse.rowset import Converted, Unconverted

        if binary.is_converted(path):
            return Converted(path, ("libsvm",), self.num_features)
        return Unconverted(
            files.opened(path, self.data_dir, progress),
            parsers.libsvm_text(self.num_features),
            bad_rows=self.bad_rows,
            most_bytes=self.memory_bytes,
        )
