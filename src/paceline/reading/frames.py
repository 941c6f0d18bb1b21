"""Parquet files that somebody else may have written: read within limits, and of known columns.

A file of a few kilobytes can stand for a billion rows. How many it has, and of which types, is
looked up before any of them is read.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

from paceline.errors import StoreError
from paceline.reading import parquet_sizes, untrusted

if TYPE_CHECKING:
    import polars

ColumnKind = Literal["text", "number", "any"]

_MOST_BYTES: Final = 1 << 30
_MOST_COLUMNS: Final = 256

STEPS: Final[Mapping[str, ColumnKind]] = {
    "seat": "text",
    "time_s": "number",
    "worker_steps": "number",
    "samples": "number",
    "global_steps": "number",
    "count": "number",
    "load_s": "number",
    "compute_s": "number",
    "exchange_s": "number",
    "loss_mean": "number",
}
NODES: Final[Mapping[str, ColumnKind]] = {
    "node": "text",
    "phase": "text",
    "time_s": "number",
    "cpu_percent": "number",
    "memory_bytes": "number",
}
EVALUATIONS: Final[Mapping[str, ColumnKind]] = {"time_s": "number", "progress": "number"}
LOSSES: Final[Mapping[str, ColumnKind]] = {
    "seat": "text",
    "worker_step": "number",
    "loss": "number",
}
# Columns that are lists of tables; all others are numbers, unless they are named above.
_NESTED: Final = ("seats",)


def read(path: Path, columns: Mapping[str, ColumnKind]) -> polars.DataFrame:
    """Read a table that has at least these columns; empty where there is no file.

    Raises `StoreError` where it is not such a table, or too large.
    """
    import polars

    if not os.path.lexists(path):
        return polars.DataFrame()
    try:
        with untrusted.opened(path) as file:
            _check_sizes(path, file)
            source = polars.scan_parquet(file)
            schema = source.collect_schema()
            _check(path, schema, columns)
            times = [polars.col(name).cast(polars.Float64) for name in schema if name == "time_s"]
            return source.with_columns(times).collect()
    except (OSError, ValueError, polars.exceptions.PolarsError) as error:
        raise StoreError(f"{path} cannot be read: {untrusted.one_line(str(error))}") from error
    except polars.exceptions.PanicException as error:  # its reader gave up on a damaged file
        raise StoreError(f"{path} cannot be read: {untrusted.one_line(str(error))}") from None


def num_rows(path: Path) -> int:
    """Look up how many rows a table has, which needs no polars; 0 where there is no file.

    Raises `StoreError` where it is not a table, or too large.
    """
    if not os.path.lexists(path):
        return 0
    try:
        with untrusted.opened(path) as file:
            return _check_sizes(path, file)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {untrusted.one_line(str(error))}") from error


def _check(
    path: Path, schema: Mapping[str, polars.DataType], columns: Mapping[str, ColumnKind]
) -> None:
    if len(schema) > _MOST_COLUMNS:
        raise StoreError(f"{path} cannot be read: more than {_MOST_COLUMNS} columns")
    if missing := sorted(columns.keys() - schema.keys()):
        raise StoreError(f"{path} cannot be read: no column {missing[0]!r}")
    for name, found in schema.items():
        wanted = columns.get(name, "any" if name in _NESTED else "number")
        if not _is(found, wanted):
            shown = untrusted.one_line(name)
            raise StoreError(f"{path} cannot be read: column {shown!r} is {found}, not {wanted}")


def _check_sizes(path: Path, file: BinaryIO) -> int:
    """See that a file can be read; returns how many rows it has."""
    num_bytes = os.fstat(file.fileno()).st_size
    if num_bytes > _MOST_BYTES:
        raise StoreError(f"{path} cannot be read: {num_bytes:,} bytes, more than {_MOST_BYTES:,}")
    # Not closed by hand: while an error is on its way, parts of it are still referred to.
    return parquet_sizes.check(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))


def _is(found: polars.DataType, wanted: ColumnKind) -> bool:
    """Whether a column is of a kind; one of nothing but unknown values is of any."""
    import polars

    if wanted == "any" or found == polars.Null:
        return True
    if wanted == "text":
        return found == polars.String
    return found.is_numeric() or found == polars.Boolean
