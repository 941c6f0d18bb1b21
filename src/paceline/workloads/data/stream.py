"""Rows that stay in their files: read ahead on threads, shuffled within a bounded memory.

A file is cut into blocks, each known by its offset. The order of rows is a pure function of the
seed, as it is for rows in memory, so every worker knows without asking which rows are its own,
decodes only those, and N workers at batch B still see what one sees at N times B.
"""

from __future__ import annotations

import dataclasses
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, final

from paceline.workloads.base import Batch, Data
from paceline.workloads.checksum import checksum_of_files
from paceline.workloads.order import Order

if TYPE_CHECKING:
    from torch import Tensor

Item = TypeVar("Item")
Made = TypeVar("Made")
Raw = TypeVar("Raw")


def prepared(
    make: Callable[[Item], Made], items: Iterable[Item], *, threads: int = 1, ahead: int = 2
) -> Iterator[Made]:
    """Make something of each item on other threads, `ahead` of who takes them, in their order.

    What `make` raises is raised where its item would have come.
    """
    source = iter(items)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="load")
    try:
        pending = deque(pool.submit(make, item) for item in islice(source, ahead))
        while pending:
            first = pending.popleft().result()
            pending.extend(pool.submit(make, item) for item in islice(source, 1))
            yield first
    finally:
        # Without waiting: what a thread still makes would count as training time.
        pool.shutdown(wait=False, cancel_futures=True)


def grouped(batches: Iterable[Tensor], least_rows: int) -> Iterator[list[Tensor]]:
    """Put small batches together until they have so many rows: a thread's turn costs time too."""
    several: list[Tensor] = []
    num_rows = 0
    for rows in batches:
        several.append(rows)
        num_rows += len(rows)
        if num_rows >= least_rows:
            yield several
            several, num_rows = [], 0
    if several:
        yield several


@final
@dataclass(frozen=True)
class Block:
    """Rows that lie next to each other in one file: what is read at once."""

    path: Path
    offset: int
    """Where it begins, in bytes."""
    num_bytes: int
    num_rows: int


class Stream(Data, ABC, Generic[Raw]):
    """Rows in blocks of files. A file format says how a block is read and how rows are decoded.

    Both are called on several threads at a time. At most about two windows of undecoded rows are
    held, so memory does not grow with the number of rows. With `in_order`, blocks of a file are
    read as they stand in it: for a file that can only be read from its beginning on.
    """

    least_rows: ClassVar[int] = 1
    """Batches smaller than this are decoded several at a time."""

    def __init__(
        self,
        blocks: Sequence[Block],
        *,
        window: int = 65_536,
        threads: int = 2,
        ahead: int = 4,
        in_order: bool = False,
        kept: Callable[[Tensor], Batch] | None = None,
    ) -> None:
        """`kept` makes a batch of rows that need not be read again: from the second epoch on."""
        self.blocks = blocks
        self._starts = [0, *accumulate(block.num_rows for block in blocks)]
        self._kept = kept
        self._runs = self._file_starts() if in_order else self._starts[:-1]
        self._window = window
        self._threads = threads
        self._ahead = ahead
        # Two windows, since batches of the next are made while the last is used up, and a block
        # that lies across the edge of a window at either end.
        largest = max((block.num_rows for block in blocks), default=0)
        self._most_held = 2 * (window + largest)
        self._held = self.holding(self.read)

    @final
    def holding(self, make: Callable[[Block], Made]) -> BlockCache[Made]:
        """Hold what is made of blocks, as many of them as are in use at a time."""
        return BlockCache(make, self._most_held)

    @abstractmethod
    def read(self, block: Block) -> Sequence[Raw]:
        """Read the rows of a block, each as it stands in the file."""

    @abstractmethod
    def decode(self, rows: Sequence[Raw], numbers: Sequence[int]) -> Batch:
        """Make a batch of rows, given with their numbers; a bad one is a `DataError` by place."""

    @final
    def __len__(self) -> int:
        return self._starts[-1]

    @final
    def checksum(self) -> str:
        """As the files are laid out, and as they begin and end: rows far inside may be slow."""
        layout = [(each.offset, each.num_bytes, each.num_rows) for each in self.blocks]
        return checksum_of_files(repr(layout), (each.path for each in self.blocks))

    def decode_several(
        self, rows: Sequence[Raw], numbers: Sequence[int], sizes: Sequence[int]
    ) -> Iterable[Batch]:
        """Make batches of these sizes; one that can do so in one go overrides this."""
        stops = list(accumulate(sizes))
        return [
            self.decode(rows[stop - size : stop], numbers[stop - size : stop])
            for size, stop in zip(sizes, stops, strict=True)
        ]

    @final
    def take(self, rows: Tensor) -> Batch:
        return self.decode(*self._undecoded(rows))

    def taker(self, order: Order) -> Callable[[Sequence[Tensor]], Iterable[Batch]]:
        """What makes several batches of row numbers.

        A format that knows a quicker way for the workers of this order overrides this.
        """
        del order
        return self._take_several

    def _take_several(self, several: Sequence[Tensor]) -> Iterable[Batch]:
        import torch

        return self.decode_several(
            *self._undecoded(torch.cat([*several])), [len(rows) for rows in several]
        )

    def _undecoded(self, rows: Tensor) -> tuple[list[Raw], list[int]]:
        """Give rows as they stand in their files, and their numbers."""
        indexes, within = (each.tolist() for each in self.places_of(rows))
        held = {index: self._held.of(self.blocks[index]) for index in dict.fromkeys(indexes)}
        found = [held[index][place] for index, place in zip(indexes, within, strict=True)]
        return found, rows.tolist()

    @final
    def places_of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Say of each row in which block it is, and which of its rows it is."""
        import torch

        starts = self._first_rows
        indexes = torch.searchsorted(starts, rows, right=True) - 1
        return indexes, rows - starts[indexes]

    @cached_property
    def _first_rows(self) -> Tensor:
        """The row that each block begins with, and the end: made once, there may be thousands."""
        import torch

        return torch.tensor(self._starts)

    @final
    def place_of(self, number: int) -> tuple[Block, int]:
        """Say in which block a row is, and which of its rows it is."""
        index = bisect_right(self._starts, number) - 1
        return self.blocks[index], number - self._starts[index]

    def _file_starts(self) -> list[int]:
        """The row that each file begins with."""
        paths = [None, *(block.path for block in self.blocks)]
        return [
            start
            for start, (one, next_) in zip(self._starts, pairwise(paths), strict=False)
            if one != next_
        ]

    @final
    def batches(self, order: Order, rank: int) -> Iterator[Batch]:
        windowed = dataclasses.replace(order, window=self._window, runs=self._runs)
        numbers = windowed.batches(rank)
        if self._kept is None:
            return self._read_batches(numbers, order)
        num_first = len(range(order.start, order.steps_per_epoch, order.every))
        return chain(
            self._read_batches(islice(numbers, num_first), order), map(self._kept, numbers)
        )

    def _read_batches(self, numbers: Iterable[Tensor], order: Order) -> Iterator[Batch]:
        groups = grouped(numbers, self.least_rows)
        several = prepared(self.taker(order), groups, threads=self._threads, ahead=self._ahead)
        return chain.from_iterable(several)


@final
class BlockCache(Generic[Made]):
    """What is made of the blocks used last, of each once however many threads want it."""

    def __init__(self, make: Callable[[Block], Made], most_rows: int) -> None:
        self._make = make
        self._most_rows = most_rows
        self._num_rows = 0
        self._blocks: OrderedDict[Block, Future[Made]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, block: Block) -> Made:
        """Give what is made of a block, from memory if it is there."""
        with self._lock:
            held = self._blocks.get(block)
            if held is not None:
                self._blocks.move_to_end(block)
            else:
                mine = self._blocks[block] = Future()
                self._make_room(block)
        if held is not None:
            return held.result()
        try:
            mine.set_result(self._make(block))
        except BaseException as error:  # noqa: BLE001 - raised by result(), here and for others
            mine.set_exception(error)
        return mine.result()

    def _make_room(self, block: Block) -> None:
        self._num_rows += block.num_rows
        while self._num_rows > self._most_rows and len(self._blocks) > 1:
            oldest, _ = self._blocks.popitem(last=False)
            self._num_rows -= oldest.num_rows
