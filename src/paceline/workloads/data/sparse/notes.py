"""What a conversion was asked for and how far it got, in a file of the folder it writes into."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from paceline.errors import DataError
from paceline.reading import untrusted
from paceline.reading.schema import read
from paceline.store.whole_files import write_atomically
from paceline.workloads.data.sparse.binary import MOST, NOTES, Coding, RowsKind
from paceline.workloads.data.sparse.features import NUM_COLUMNS
from paceline.workloads.data.sparse.reading import BadRows
from paceline.workloads.data.sparse.rowfile import RowFile
from paceline.workloads.data.sparse.writing import Written

_COUNTS = ("num_blocks", "num_rows", "num_values", "num_features", "skipped_rows")
_REMEDY = "remove it, or name another folder"


@final
@dataclass(frozen=True, kw_only=True)
class Conversion:
    """What a conversion was asked for; another one may not go on where it ended."""

    source: list[list[Any]]
    kind: RowsKind
    coding: Coding
    bad_rows: BadRows

    @staticmethod
    def of(
        files: Sequence[RowFile], *, kind: RowsKind, coding: Coding, bad_rows: BadRows
    ) -> Conversion:
        """Know files by name, size and when they were last changed."""
        states = [(file.path.name, file.path.stat()) for file in files]
        source = [[name, state.st_size, state.st_mtime_ns] for name, state in states]
        return Conversion(source=source, kind=kind, coding=coding, bad_rows=bad_rows)


@final
@dataclass(frozen=True, kw_only=True)
class _Noted:
    """What stands in the file."""

    job: Conversion
    written: Written
    width: int | None
    is_laid_out: bool

    def check(self) -> None:
        """See that sizes are sizes: files are cut to them."""
        counts = {each: getattr(self.written, each) for each in _COUNTS} | {"width": self.width}
        for name, count in counts.items():
            if count is not None and not 0 <= count <= MOST:
                raise ValueError(f"{name} = {count}: not a number of rows or features")


@final
class Notes:
    """The notes of one folder."""

    def __init__(self, out: Path, job: Conversion) -> None:
        self._out = out
        self._path = out / NOTES
        self.job = job
        self.written = Written()
        self.width: int | None = NUM_COLUMNS if job.kind == "criteo" else None
        """Features of each row, where rows are written as a matrix."""
        self.is_laid_out = job.kind != "tfrecord"
        """Whether it is decided how rows are written; else the first block decides."""
        self._read()

    def _read(self) -> None:
        if not self._path.exists():
            if any(self._out.iterdir()):
                raise DataError(f"{self._out}: is not empty; {_REMEDY}")
            self.note(self.written)
            return
        try:
            noted = read(_Noted, untrusted.read_json(self._path))
            noted.check()
        except (OSError, ValueError) as error:
            raise DataError(f"{self._path}: cannot be read ({error}); {_REMEDY}") from error
        self.written, self.width, self.is_laid_out = noted.written, noted.width, noted.is_laid_out
        if noted.job != self.job:
            other = "a conversion of other rows, or with other options"
            raise DataError(f"{self._out}: holds {other}; {_REMEDY}")

    def note(self, written: Written) -> None:
        """Write beside and rename: the notes are always whole."""
        self.written = written
        table = {
            "job": asdict(self.job),
            "written": asdict(written),
            "width": self.width,
            "is_laid_out": self.is_laid_out,
        }
        write_atomically(self._path, json.dumps(table), lasting=False)

    def lay_out(self, width: int | None) -> None:
        """Decide how rows are written."""
        self.width, self.is_laid_out = width, True
        self.note(self.written)

    def begin_as_vectors(self) -> None:
        """Throw away what was written as a matrix: not all rows fit into it."""
        for path in self._out.iterdir():
            path.unlink()
        self.written = Written()
        self.lay_out(None)
