"""Rows of Criteo's shape, skewed as real ones are: made once into the cache, and converted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.workloads.criteo import LogisticCriteo
from paceline.workloads.data.sparse.binary import MATRIX_FILES

NUM_ROWS = 500_000
TEST_ROWS = 100


@dataclass(frozen=True)
class SkewedRows:
    """Where they are."""

    files: Path
    """A pattern of TFRecord files."""
    test: Path

    @property
    def converted(self) -> Path:
        """The same rows as plain arrays."""
        return self.files.parent / "train-converted"

    @property
    def matrix(self) -> Path:
        """A line a row: the label, then its features."""
        (name,) = MATRIX_FILES
        return self.converted / name

    def workload(self, train: Path) -> dict[str, Any]:
        """Give a spec's workload that trains on some of these."""
        paths = {"train": str(train), "test": str(self.test)}
        return {"name": "logistic-criteo", "test_rows": TEST_ROWS, **paths}


def made(num_rows: int = NUM_ROWS) -> SkewedRows:
    """Make them, unless they are there."""
    workload = LogisticCriteo(source="generated", rows=num_rows, test_rows=TEST_ROWS)
    workload.prepare(lambda *_: None)
    files, test = workload.paths()
    assert test is not None
    return SkewedRows(files, test)
