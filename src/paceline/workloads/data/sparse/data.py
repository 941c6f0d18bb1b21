"""Sparse rows as workers take them: held in memory, mapped into it, or streamed from files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from paceline.rows import distinct
from paceline.workloads.base import Batch, Data
from paceline.workloads.data.sparse.examples import Array, Examples
from paceline.workloads.data.sparse.features import numbered
from paceline.workloads.data.sparse.reading import Judge, Parse, blocks_of
from paceline.workloads.data.sparse.rowfile import RowFile
from paceline.workloads.data.stream import Block, Stream, grouped, prepared
from paceline.workloads.order import Order

# So many rows are shuffled at a time; up to as many as `_MOST_WHOLE`, all of them.
WINDOW: Final = 1 << 16
_MOST_WHOLE: Final = 1 << 20
_RUN: Final = 1 << 12
# Batches of fewer rows are made several at a time.
_AT_ONCE: Final = 256
# What a window of undecoded rows may take.
_WINDOW_BYTES: Final = 1 << 25


@final
class Batcher:
    """Makes batches: rows of the table that are touched, positions in it, labels; where rows
    differ in length also what each feature is worth, and where each row begins.
    """

    def __init__(self, dtype: torch.dtype, hashed_to: int | None = None) -> None:
        self._dtype = dtype
        self._hashed_to = hashed_to

    def batch(self, examples: Examples) -> Batch:
        """Make a batch of these rows."""
        features = examples.features
        if self._hashed_to is not None:
            features = numbered(features, self._hashed_to)
        wanted = torch.from_numpy(features.astype(np.int64))
        touched, positions = distinct(wanted)
        batch = [touched, positions, self._tensor(examples.labels)]
        if examples.starts is not None and examples.values is not None:
            batch += [self._tensor(examples.values), torch.from_numpy(examples.starts)]
        return batch

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(np.array(array)).to(self._dtype)


@final
class Held(Data):
    """Rows in memory, or in a file that is mapped into it."""

    def __init__(self, examples: Examples, batcher: Batcher, judge: Judge, origin: str) -> None:
        self._examples = examples
        self._batcher = batcher
        self._judge = judge
        self.origin = origin

    def __len__(self) -> int:
        return len(self._examples)

    def take(self, rows: Tensor) -> Batch:
        return self._batcher.batch(self._examples.take(rows.numpy()))

    def batches(self, order: Order, rank: int) -> Iterator[Batch]:
        if len(self) > _MOST_WHOLE:  # a permutation of all would grow with their number
            order = dataclasses.replace(order, window=WINDOW, runs=range(0, len(self), _RUN))
        groups = grouped(order.batches(rank), _AT_ONCE)
        return chain.from_iterable(prepared(self._take_several, groups))

    def _take_several(self, several: Sequence[Tensor]) -> list[Batch]:
        return [self.take(rows) for rows in several]

    def touched(self, batch: Batch) -> Tensor | None:
        return batch[0]

    def counted(self) -> Mapping[str, Any]:
        """Every worker left out the same rows, when it read the file."""
        return {"left_out_rows": self._judge.num_skipped, "first_skipped": self._judge.first}


class _Row(NamedTuple):
    """A row that was read but not parsed."""

    block: _Rows
    number: int


@final
class _Rows(Sequence[_Row]):
    """The rows of a block, each of which knows where it came from."""

    def __init__(self, file: RowFile, block: Block) -> None:
        self.file = file
        self.block = block
        self.rows = file.read(block)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> _Row:  # type: ignore[override]
        return _Row(self, number)


@final
class RowStream(Stream[_Row]):
    """Rows that are read and parsed as they are needed."""

    least_rows = _AT_ONCE

    def __init__(
        self,
        files: Sequence[RowFile],
        num_rows: int,
        *,
        parse: Parse,
        batcher: Batcher,
        judge: Judge,
        origin: str,
    ) -> None:
        blocks = _first(files, num_rows)
        self._files = {file.path: file for file in files}
        self._parse = parse
        self._batcher = batcher
        self._judge = judge
        self.origin = origin
        row_bytes = sum(block.num_bytes for block in blocks) / max(1, num_rows)
        window = max(1024, min(WINDOW, int(_WINDOW_BYTES / row_bytes)))
        super().__init__(blocks, window=window, in_order=any(file.is_sequential for file in files))

    def read(self, block: Block) -> Sequence[_Row]:
        return _Rows(self._files[block.path], block)

    def decode(self, rows: Sequence[_Row]) -> Batch:
        found = self._parse([row.block.rows[row.number] for row in rows])
        self._judge.judge(found.bad, lambda number: _place(rows[number]))
        return self._batcher.batch(found.examples)

    def decode_several(self, parts: Sequence[Sequence[_Row]]) -> Iterable[Batch]:
        """Parse the rows of all parts in one go: a hundred take little longer than one."""
        found = self._parse([row.block.rows[row.number] for part in parts for row in part])
        if found.bad:  # to be told of when its batch is taken, and not before
            return map(self.decode, parts)
        stops = accumulate(len(part) for part in parts)
        return [
            self._batcher.batch(found.examples.take(np.arange(stop - len(part), stop)).as_matrix())
            for part, stop in zip(parts, stops, strict=True)
        ]

    def touched(self, batch: Batch) -> Tensor | None:
        return batch[0]

    def counted(self) -> Mapping[str, Any]:
        """Each worker left out rows of its own batches."""
        return {"skipped_rows": self._judge.num_skipped, "first_skipped": self._judge.first}


def _place(row: _Row) -> str:
    return row.block.file.place(row.block.block, row.number)


def _first(files: Sequence[RowFile], num_rows: int) -> list[Block]:
    """The blocks of the first so many rows; the last of them may count fewer than it has."""
    blocks = []
    for _, block in blocks_of(files):
        if num_rows > 0:
            blocks.append(dataclasses.replace(block, num_rows=min(block.num_rows, num_rows)))
            num_rows -= block.num_rows
    return blocks
