"""Arrays of converted rows as they grow, cut back to what was noted when they go on."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from paceline.errors import DataError
from paceline.workloads.data.sparse.binary import MATRIX_FILES, VECTOR_FILES
from paceline.workloads.data.sparse.examples import Array, Examples


@final
@dataclass(frozen=True, kw_only=True)
class Written:
    """How far a conversion got."""

    num_blocks: int = 0
    num_rows: int = 0
    num_values: int = 0
    num_features: int = 0
    skipped_rows: int = 0
    first_skipped: str = ""


class Writer(ABC):
    """Appends rows to the arrays of a folder."""

    def __init__(self, folder: Path, sizes: dict[str, int]) -> None:
        self._stack = contextlib.ExitStack()
        self._files = {
            name: self._stack.enter_context(cut(folder / name, size))
            for name, size in sizes.items()
        }

    @abstractmethod
    def fits(self, examples: Examples) -> bool:
        """Whether these rows can be written so."""

    @abstractmethod
    def write(self, examples: Examples) -> None:
        """Append rows."""

    def append(self, name: str, array: Array) -> None:
        """Append to one of the arrays."""
        self._files[name].write(np.ascontiguousarray(array).data)

    def flush(self) -> None:
        """Give everything to the system: it survives this process, if not the machine."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        self._stack.close()


@final
class MatrixWriter(Writer):
    """Rows of as many features each, all worth one."""

    def __init__(self, folder: Path, width: int, written: Written) -> None:
        (self._name,) = MATRIX_FILES
        super().__init__(folder, {self._name: 4 * (width + 1) * written.num_rows})
        self._width = width

    def fits(self, examples: Examples) -> bool:
        return examples.starts is None and examples.features.shape[1] == self._width

    def write(self, examples: Examples) -> None:
        rows = np.empty((len(examples), self._width + 1), MATRIX_FILES[self._name])
        rows[:, 0] = examples.labels
        rows[:, 1:] = examples.features
        self.append(self._name, rows)


@final
class VectorWriter(Writer):
    """Rows of any number of features."""

    def __init__(self, folder: Path, written: Written) -> None:
        self._num_values = written.num_values
        counts = {
            "labels.u1": written.num_rows,
            "starts.i8": written.num_rows + 1 if written.num_rows else 0,
            "features.u4": written.num_values,
            "values.f4": written.num_values,
        }
        sizes = {name: counts[name] * dtype.itemsize for name, dtype in VECTOR_FILES.items()}
        super().__init__(folder, sizes)
        if not written.num_rows:
            self.append("starts.i8", np.zeros(1, VECTOR_FILES["starts.i8"]))

    def fits(self, examples: Examples) -> bool:
        del examples
        return True

    def write(self, examples: Examples) -> None:
        rows = examples.as_vector()
        assert rows.starts is not None
        assert rows.values is not None
        ends = rows.starts[1:] + self._num_values
        arrays = {
            "labels.u1": rows.labels,
            "starts.i8": ends,
            "features.u4": rows.features,
            "values.f4": rows.values,
        }
        for name, array in arrays.items():
            self.append(name, array.astype(VECTOR_FILES[name]))
        self._num_values += len(rows.features)


def cut(path: Path, size: int) -> Any:
    """Open a file to append to, cut to the bytes that are known to be right."""
    file = path.open("ab")
    if file.tell() < size:
        file.close()
        raise DataError(f"{path}: shorter than was noted; remove the folder and convert again")
    file.truncate(size)
    return file
