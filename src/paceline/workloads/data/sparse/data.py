"""Sparse rows as workers take them: held in memory, mapped into it, or streamed from files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor

from paceline.training.distinct import Distinct
from paceline.training.state import State, StateReader, attributes
from paceline.workloads.base import Batch, Data
from paceline.workloads.data.sparse.examples import Array, Examples
from paceline.workloads.data.sparse.features import numbered
from paceline.workloads.data.sparse.reading import Judge, Parse, blocks_of
from paceline.workloads.data.sparse.rowfile import RowFile
from paceline.workloads.data.sparse.whole import (
    Gathered,
    JoinedBlocks,
    gathered,
    joined,
    parsed_block,
)
from paceline.workloads.data.stream import Block, Stream
from paceline.workloads.order import Order

# So many rows are shuffled at a time; up to as many as `_MOST_WHOLE`, all of them.
WINDOW: Final = 1 << 16
_MOST_WHOLE: Final = 1 << 20
_RUN: Final = 1 << 12
# Batches of fewer rows are parsed several at a time, which lets the steps go on meanwhile.
_AT_ONCE: Final = 4096
# What a window of undecoded rows may take.
_WINDOW_BYTES: Final = 1 << 25


@final
class Batcher:
    """Makes batches: rows of the table that are touched, positions in it, labels; where rows
    differ in length also what each feature is worth, and where each row begins.

    Used by one thread: the one that takes the batches.
    """

    def __init__(self, dtype: torch.dtype, hashed_to: int | None = None) -> None:
        self._dtype = dtype
        self._hashed_to = hashed_to
        self._distinct = Distinct()

    def batch(self, examples: Examples) -> Batch:
        """Make a batch of these rows."""
        features = examples.features
        if self._hashed_to is not None:
            features = numbered(features, self._hashed_to)
        wanted = torch.from_numpy(features.astype(np.int64))
        touched, positions = self._distinct(wanted)
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
        # Not on a thread, which would take the interpreter from the steps while it makes a batch.
        return map(self.take, order.batches(rank))

    def touched(self, batch: Batch) -> Tensor | None:
        return batch[0]

    def counted(self) -> Mapping[str, Any]:
        """Every worker left out the same rows, when it read the file."""
        return {"left_out_rows": self._judge.num_skipped, "first_skipped": self._judge.first}


@final
class RowStream(Stream[bytes]):
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
        kept: Examples | None = None,
    ) -> None:
        """`kept` are the same rows, parsed: they are taken from the second epoch on."""
        blocks = _first(files, num_rows)
        self._files = {file.path: file for file in files}
        self._parse = parse
        self._batcher = batcher
        self._judge = judge
        self.origin = origin
        row_bytes = sum(block.num_bytes for block in blocks) / max(1, num_rows)
        window = max(1024, min(WINDOW, int(_WINDOW_BYTES / row_bytes)))
        super().__init__(
            blocks,
            window=window,
            threads=1,
            in_order=any(file.is_sequential for file in files),
            # As many groups of those as a window has: when one is begun all of its blocks are
            # read at once, and the steps go on meanwhile with what there is of the last.
            ahead=1 + window // _AT_ONCE,
            kept=None if kept is None else lambda rows: batcher.batch(kept.take(rows.numpy())),
        )
        self._blocks: JoinedBlocks | None = None
        self._parsed = self.holding(lambda block: parsed_block(parse, self._rows_of(block)))

    def read(self, block: Block) -> Sequence[bytes]:
        return self._files[block.path].read(block)

    def _rows_of(self, block: Block) -> Sequence[bytes]:
        """Of the last block, perhaps fewer than it has."""
        return self.read(block)[: block.num_rows]

    def taker(self, order: Order) -> Callable[[Sequence[Tensor]], Iterable[Batch]]:
        """Blocks are parsed whole where all of their rows are this worker's."""
        return self._take_parsed if order.num_workers == 1 else super().taker(order)

    def _take_parsed(self, several: Sequence[Tensor]) -> Iterable[Batch]:
        rows = torch.cat([*several])
        indexes, within = (each.numpy() for each in self.places_of(rows))
        stops = list(accumulate(map(len, several), initial=0))
        found = gathered(self._joined(np.unique(indexes).tolist()), indexes, within)
        return self._of_gathered(found, stops, rows)

    def _joined(self, numbers: Sequence[int]) -> JoinedBlocks:
        """Put blocks behind each other, unless they are: batches of one window are of the same."""
        held = self._blocks
        if held is None or not held.numbers.issuperset(numbers):
            # Those of the last window first: no room is made at their cost.
            inorder = sorted(numbers, key=lambda each: held is None or each not in held.numbers)
            held = joined({each: self._parsed.of(self.blocks[each]) for each in inorder})
            self._blocks = held
        return held

    def _of_gathered(self, found: Gathered, stops: list[int], rows: Tensor) -> Iterator[Batch]:
        """Make batches where they are taken; a bad row is told of there too, and not before."""
        cuts = found.num_good[stops].tolist()
        parts = self._cut(found.examples, cuts)
        for start, stop in pairwise(stops):
            bad = {each: told for each, told in found.bad.items() if start <= each < stop}
            self._judge.judge(bad, lambda number: self._place(int(rows[number])))
            yield next(parts)

    def decode(self, rows: Sequence[bytes], numbers: Sequence[int]) -> Batch:
        found = self._parse(rows)
        self._judge.judge(found.bad, lambda bad: self._place(numbers[bad]))
        return self._batcher.batch(found.examples)

    def _place(self, number: int) -> str:
        block, within = self.place_of(number)
        return self._files[block.path].place(block, within)

    def decode_several(
        self, rows: Sequence[bytes], numbers: Sequence[int], sizes: Sequence[int]
    ) -> Iterable[Batch]:
        """Parse all rows in one go: a thousand take little longer than a hundred.

        Batches are made of them where they are taken, not on the thread that parses.
        """
        found = self._parse(rows)
        if found.bad:  # to be told of when its batch is taken, and not before
            return self._one_by_one(rows, numbers, sizes)
        return self._cut(found.examples, [0, *accumulate(sizes)])

    def _one_by_one(
        self, rows: Sequence[bytes], numbers: Sequence[int], sizes: Sequence[int]
    ) -> Iterator[Batch]:
        for size, stop in zip(sizes, accumulate(sizes), strict=True):
            yield self.decode(rows[stop - size : stop], numbers[stop - size : stop])

    def _cut(self, examples: Examples, stops: Sequence[int]) -> Iterator[Batch]:
        """Make batches of neighbouring rows, given where they begin and the last one ends."""
        is_matrix = examples.starts is None
        for start, stop in pairwise(stops):
            own = range(start, stop)
            taken = examples.part(own) if is_matrix else examples.take(np.array(own)).as_matrix()
            yield self._batcher.batch(taken)

    def touched(self, batch: Batch) -> Tensor | None:
        return batch[0]

    def counted(self) -> Mapping[str, Any]:
        """Each worker left out rows of its own batches."""
        return {"skipped_rows": self._judge.num_skipped, "first_skipped": self._judge.first}

    def state(self) -> State:
        return attributes(self, "_judge")

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "_judge")


def _first(files: Sequence[RowFile], num_rows: int) -> list[Block]:
    """The blocks of the first so many rows; the last of them may count fewer than it has."""
    blocks = []
    for _, block in blocks_of(files):
        if num_rows > 0:
            blocks.append(dataclasses.replace(block, num_rows=min(block.num_rows, num_rows)))
            num_rows -= block.num_rows
    return blocks
