"""Rows out of files: parsed, and what to do about bad ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, final

from paceline.errors import DataError
from paceline.reading.untrusted import visible
from paceline.training.state import State, Stateful, StateReader
from paceline.workloads.data.sparse.examples import Examples, Parsed, concatenated
from paceline.workloads.data.sparse.rowfile import RowFile
from paceline.workloads.data.stream import Block

BadRows = Literal["stop", "skip"]


Parse = Callable[[Sequence[bytes]], Parsed]
"""Makes examples of rows as they stand in a file."""


@final
class Judge(Stateful):
    """Stops at a bad row, or counts it."""

    def __init__(self, bad_rows: BadRows, option: str = "workload.bad_rows=skip") -> None:
        self._stops = bad_rows == "stop"
        self._option = option
        self._lock = threading.Lock()
        self.num_skipped = 0
        self.first = ""
        """The first that was skipped: where, and what is wrong with it."""

    def judge(self, bad: Mapping[int, str], place: Callable[[int], str]) -> None:
        """DataError for the first of these rows; or they are counted."""
        if not bad:
            return
        first = min(bad)
        told = f"{place(first)}: {bad[first]}"
        if self._stops:
            raise DataError(f"{told}; {self._option} leaves such rows out")
        with self._lock:
            self.num_skipped += len(bad)
            self.first = self.first or told

    def state(self) -> State:
        return {"num_skipped": self.num_skipped, "first": visible(self.first)}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "num_skipped", "first")


def blocks_of(files: Sequence[RowFile]) -> list[tuple[RowFile, Block]]:
    """The blocks of all files, in order."""
    return [(file, block) for file in files for block in file.blocks]


def num_rows_of(files: Sequence[RowFile]) -> int:
    """How many rows there are, bad ones counted too."""
    return sum(block.num_rows for _, block in blocks_of(files))


def read(files: Sequence[RowFile], parse: Parse, judge: Judge, part: range) -> Examples:
    """Read rows by their numbers, bad ones counted too; the bad ones among them are left out."""
    parts = [each for each in _parsed(files, parse, judge, part) if len(each)]
    if not parts:
        raise DataError(f"{files[0].path}: there is no good row in it")
    return concatenated(parts).as_matrix()


def _parsed(
    files: Sequence[RowFile], parse: Parse, judge: Judge, part: range
) -> Iterator[Examples]:
    """Parse what is wanted of one block after the other."""
    first = 0
    for file, block in blocks_of(files):
        start, stop = max(part.start - first, 0), min(part.stop - first, block.num_rows)
        if start < stop:
            found = parse(file.read(block)[start:stop])
            judge.judge(found.bad, placer(file, block, start))
            yield found.examples
        first += block.num_rows


def placer(file: RowFile, block: Block, start: int = 0) -> Callable[[int], str]:
    """Say where rows stand that were counted from the block's row `start` on."""
    return lambda number: file.place(block, number + start)
