"""All rows that one path means: how many, where they are from, and how workers take them.

Small files are read into memory, converted rows are mapped into it, large files are streamed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, final

from paceline.errors import DataError
from paceline.workloads.data.sparse import binary, reading
from paceline.workloads.data.sparse.binary import RowsKind
from paceline.workloads.data.sparse.examples import Examples
from paceline.workloads.data.sparse.reading import BadRows, Judge, Parse, num_rows_of
from paceline.workloads.data.sparse.rowfile import RowFile

if TYPE_CHECKING:
    import torch

    from paceline.workloads.base import Data


class RowSet(ABC):
    """Rows of one path, numbered from 0 on."""

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """How many rows there are."""

    @property
    def num_features(self) -> int | None:
        """How many features they have, where the rows themselves decide; else None."""
        return None

    @abstractmethod
    def check(self) -> None:
        """Look whether they are what they should be, as far as that is quickly done."""

    @abstractmethod
    def data(self, part: range, dtype: torch.dtype, *, for_training: bool) -> Data:
        """Hold neighbouring rows so that they can be taken; those for training begin with 0."""


@final
class Converted(RowSet):
    """Rows of a folder that `paceline data convert` wrote."""

    def __init__(self, folder: Path, kinds: Sequence[RowsKind], num_weights: int | None) -> None:
        """Open a folder; there must be a weight for each feature, if their number is given."""
        self._folder = folder
        self._known = known = binary.described(folder)
        self._num_weights = num_weights
        if known.kind not in kinds:
            raise DataError(f"{folder}: converted {known.kind} rows, not {' or '.join(kinds)}")
        if num_weights is not None and (known.num_features or 0) > num_weights:
            few = f"more than workload.num_features = {num_weights:,}"
            raise DataError(f"{folder}: rows of {known.num_features:,} features, {few}")

    @property
    def num_rows(self) -> int:
        return self._known.num_rows

    @property
    def num_features(self) -> int | None:
        return self._known.num_features

    def check(self) -> None:
        binary.check_starts(self._folder, binary.mapped(self._folder, self._known))

    def data(self, part: range, dtype: torch.dtype, *, for_training: bool) -> Data:
        del for_training  # a map costs no memory
        from paceline.workloads.data.sparse.data import Batcher, Held

        known = self._known
        examples = binary.mapped(self._folder, known).part(part)
        hashed_to = self._num_weights if known.coding == "hash" else None
        judge = Judge("skip")
        judge.num_skipped, judge.first = known.skipped_rows, known.first_skipped
        origin = f"{self._folder.name}, {len(examples):,} rows, converted"
        return Held(examples, Batcher(dtype, hashed_to), judge, origin)


@final
class Unconverted(RowSet):
    """Rows of text or TFRecord files."""

    def __init__(
        self,
        files: Sequence[RowFile],
        parse: Parse,
        *,
        bad_rows: BadRows,
        most_bytes: int,
        hashed_to: int | None = None,
        kept: Path | None = None,
    ) -> None:
        """`kept` is a folder that has the same rows converted: of streamed ones, it is mapped."""
        self._files = files
        self._kept = kept
        self._parse = parse
        self._bad_rows: BadRows = bad_rows
        self._hashed_to = hashed_to
        self.is_small = sum(file.path.stat().st_size for file in files) <= most_bytes

    @cached_property
    def _all(self) -> tuple[Examples, Judge]:
        judge = Judge(self._bad_rows)
        every = range(num_rows_of(self._files))
        return reading.read(self._files, self._parse, judge, every), judge

    @property
    def num_rows(self) -> int:
        return len(self._all[0]) if self.is_small else num_rows_of(self._files)

    @property
    def num_features(self) -> int | None:
        """Of rows in memory: one more than the last feature of all."""
        if not self.is_small or self._hashed_to is not None:
            return None
        features = self._all[0].features
        return int(features.max()) + 1 if features.size else 0

    def check(self) -> None:
        """Read a small file whole, and the first block of each large one."""
        if self.is_small:
            _ = self._all
            return
        for file in self._files:
            first = range(file.blocks[0].num_rows)
            reading.read([file], self._parse, Judge(self._bad_rows), first)

    def data(self, part: range, dtype: torch.dtype, *, for_training: bool) -> Data:
        from paceline.workloads.data.sparse.data import Batcher, Held, RowStream

        batcher = Batcher(dtype, self._hashed_to)
        origin = f"{self._name}, {len(part):,} rows"
        if self.is_small:
            examples, judge = self._all
            return Held(examples.part(part), batcher, judge, origin)
        judge = Judge(self._bad_rows)
        if not for_training:
            examples = reading.read(self._files, self._parse, judge, part)
            return Held(examples, batcher, judge, origin)
        return RowStream(
            self._files,
            len(part),
            parse=self._parse,
            batcher=batcher,
            judge=judge,
            origin=f"{origin}, streamed",
            kept=self._mapped(part),
        )

    def _mapped(self, part: range) -> Examples | None:
        if self._kept is None:
            return None
        return binary.mapped(self._kept, binary.described(self._kept)).part(part)

    @property
    def _name(self) -> str:
        first = self._files[0].path
        return (
            first.name
            if len(self._files) == 1
            else f"{len(self._files)} files of {first.parent.name}"
        )
