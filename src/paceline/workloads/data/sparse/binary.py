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
from paceline.reading import untrusted
from paceline.reading.schema import read
from paceline.store.whole_files import write_atomically
from paceline.workloads.data.sparse.examples import Array, Examples

DESCRIPTION = "rows.json"
NOTES = "conversion.json"  # how far a conversion got
_FORMAT = "paceline-rows"
_VERSION = 1
MOST = 1 << 48
"""More rows or features than any disk has room for."""
_MATRIX = "rows.u4"
_STARTS = "starts.i8"
_START_BYTES = 8
_AT_ONCE = 1 << 20
MATRIX_FILES: dict[str, np.dtype[Any]] = {_MATRIX: np.dtype("<u4")}
VECTOR_FILES: dict[str, np.dtype[Any]] = {
    "labels.u1": np.dtype("<u1"),
    _STARTS: np.dtype("<i8"),
    "features.u4": np.dtype("<u4"),
    "values.f4": np.dtype("<f4"),
}

RowsKind = Literal["criteo", "libsvm", "tfrecord"]
Coding = Literal["hash", "vocabulary", "index"]
"""What a feature's number is: a hash of 32 bits, one of a vocabulary, or as it was in the file."""


@final
@dataclass(frozen=True)
class _Format:
    """What wrote them."""

    format: str
    version: int


@final
@dataclass(frozen=True, kw_only=True)
class RowsHeader:
    """What there is to know of converted rows."""

    kind: RowsKind
    coding: Coding
    width: int | None
    """Features of each row, where all have as many; None: they differ."""
    num_rows: int
    num_features: int | None
    """Features are numbered below this; None where they are hashes."""
    skipped_rows: int
    first_skipped: str
    source: str

    def check(self) -> None:
        """See that sizes are sizes: files are mapped by them."""
        for name in ("width", "num_rows", "num_features", "skipped_rows"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MOST:
                raise ValueError(f"{name} = {value}: not a number of rows or features")

    def write(self, folder: Path) -> None:
        """Seal the folder."""
        table = {"format": _FORMAT, "version": _VERSION, **asdict(self)}
        write_atomically(folder / DESCRIPTION, json.dumps(table, indent=2) + "\n")


def is_converted(path: Path) -> bool:
    """Whether a path is a folder of converted rows."""
    return (path / DESCRIPTION).is_file()


def described(folder: Path) -> RowsHeader:
    """Read what there is to know of converted rows."""
    path = folder / DESCRIPTION
    try:
        table = untrusted.read_json(path, follow=True)
        written_by = read(_Format, table)
        if (written_by.format, written_by.version) != (_FORMAT, _VERSION):
            raise DataError(f"{path}: written by another version; convert the rows again")
        known = read(RowsHeader, table)
        known.check()
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a description of converted rows: {error}") from error
    return known


def mapped(folder: Path, known: RowsHeader) -> Examples:
    """Map the rows into memory; nothing is read before it is needed.

    Raises `DataError`, before anything is mapped, where files have other sizes than they should.
    """
    if known.width is not None:
        sizes = {_MATRIX: known.num_rows * (known.width + 1)}
        (rows,) = _arrays(folder, MATRIX_FILES, sizes)
        rows = rows.reshape(known.num_rows, known.width + 1)
        return Examples(rows[:, 0], rows[:, 1:])
    _check_size(folder / _STARTS, (known.num_rows + 1) * _START_BYTES)
    num_values = _last_start(folder / _STARTS)
    sizes = {
        "labels.u1": known.num_rows,
        _STARTS: known.num_rows + 1,
        "features.u4": num_values,
        "values.f4": num_values,
    }
    labels, starts, features, values = _arrays(folder, VECTOR_FILES, sizes)
    return Examples(labels, features, starts, values)


def check_starts(folder: Path, examples: Examples) -> None:
    """See that rows begin one behind the other; else they would be read from anywhere."""
    starts = examples.starts
    if starts is None:
        return
    before = 0
    for first in range(0, len(starts), _AT_ONCE):
        some = np.asarray(starts[first : first + _AT_ONCE])
        if some[0] < before or (some[1:] < some[:-1]).any() or (first == 0 and some[0] != 0):
            raise DataError(f"{folder / _STARTS}: rows that overlap; convert again")
        before = int(some[-1])


def _last_start(path: Path) -> int:
    """Where the last row ends: as many values as there are."""
    with untrusted.opened(path, follow=True) as file:
        file.seek(-_START_BYTES, 2)
        last = int.from_bytes(file.read(_START_BYTES), "little", signed=True)
    if last < 0:
        raise DataError(f"{path}: its last row ends before the first; convert again")
    return last


def _arrays(folder: Path, files: dict[str, np.dtype[Any]], sizes: dict[str, int]) -> list[Array]:
    for name, dtype in files.items():
        _check_size(folder / name, sizes[name] * dtype.itemsize)
    return [
        # As a plain array: of a memmap, taking rows costs several times as much.
        np.asarray(np.memmap(folder / name, dtype, "r")) if sizes[name] else np.zeros(0, dtype)
        for name, dtype in files.items()
    ]


def _check_size(path: Path, wanted: int) -> None:
    found = path.stat().st_size if path.is_file() else None
    if found != wanted:
        told = "no" if found is None else f"{found:,}"
        raise DataError(f"{path}: {told} bytes where {wanted:,} should be; convert again")
