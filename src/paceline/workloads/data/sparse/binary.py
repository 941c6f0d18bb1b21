"""Converted rows: a folder of plain arrays that are mapped into memory, and a description of them.

A matrix (every row as many features, each worth one) is one file, a line a row, the label first.
Other rows are four files: labels, where rows begin, features, values. Numbers are little-endian.
The description is written last: where it is, the rows are whole.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from paceline.errors import DataError
from paceline.workloads.data.sparse.examples import Array, Examples

DESCRIPTION = "rows.json"
NOTES = "conversion.json"  # how far a conversion got
_FORMAT = "paceline-rows"
_VERSION = 1
MATRIX_FILES: dict[str, np.dtype[Any]] = {"rows.u4": np.dtype("<u4")}
VECTOR_FILES: dict[str, np.dtype[Any]] = {
    "labels.u1": np.dtype("<u1"),
    "starts.i8": np.dtype("<i8"),
    "features.u4": np.dtype("<u4"),
    "values.f4": np.dtype("<f4"),
}

Kind = Literal["criteo", "libsvm", "tfrecord"]
Coding = Literal["hash", "vocabulary", "index"]
"""What a feature's number is: a hash of 32 bits, one of a vocabulary, or as it was in the file."""


@final
@dataclass(frozen=True, kw_only=True)
class Description:
    """What there is to know of converted rows."""

    kind: Kind
    coding: Coding
    width: int | None
    """Features of each row, where all have as many; None: they differ."""
    num_rows: int
    num_features: int | None
    """Features are numbered below this; None where they are hashes."""
    skipped_rows: int
    first_skipped: str
    source: str

    def write(self, folder: Path) -> None:
        """Seal the folder."""
        table = {"format": _FORMAT, "version": _VERSION, **asdict(self)}
        beside = folder / f"{DESCRIPTION}.new"
        beside.write_text(json.dumps(table, indent=2) + "\n")
        beside.replace(folder / DESCRIPTION)


def is_converted(path: Path) -> bool:
    """Whether a path is a folder of converted rows."""
    return (path / DESCRIPTION).is_file()


def described(folder: Path) -> Description:
    """Read what there is to know of converted rows."""
    path = folder / DESCRIPTION
    try:
        table: dict[str, Any] = json.loads(path.read_text())
        if table.pop("format") != _FORMAT or table.pop("version") != _VERSION:
            raise DataError(f"{path}: written by another version; convert the rows again")
        return Description(**table)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not a description of converted rows: {error}") from error


def mapped(folder: Path, known: Description) -> Examples:
    """Map the rows into memory; nothing is read before it is needed."""
    if known.width is not None:
        (rows,) = _arrays(folder, MATRIX_FILES, [known.num_rows * (known.width + 1)])
        rows = rows.reshape(known.num_rows, known.width + 1)
        return Examples(rows[:, 0], rows[:, 1:])
    (starts,) = _arrays(folder, _only("starts.i8"), [known.num_rows + 1])
    num_values = int(starts[-1])
    sizes = [known.num_rows, known.num_rows + 1, num_values, num_values]
    labels, starts, features, values = _arrays(folder, VECTOR_FILES, sizes)
    return Examples(labels, features, starts, values)


def _only(name: str) -> dict[str, np.dtype[Any]]:
    return {name: VECTOR_FILES[name]}


def _arrays(folder: Path, files: dict[str, np.dtype[Any]], sizes: list[int]) -> list[Array]:
    arrays: list[Array] = []
    for (name, dtype), size in zip(files.items(), sizes, strict=True):
        path = folder / name
        if not path.is_file() or path.stat().st_size != size * dtype.itemsize:
            found = f"{path.stat().st_size:,}" if path.is_file() else "no"
            wanted = f"{size * dtype.itemsize:,}"
            raise DataError(f"{path}: {found} bytes where {wanted} should be; convert again")
        arrays.append(np.memmap(path, dtype, "r") if size else np.zeros(0, dtype))
    return arrays
