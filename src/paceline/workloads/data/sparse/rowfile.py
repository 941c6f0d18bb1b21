"""A file of rows, cut into blocks: the seam between file formats and who reads them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

from paceline.errors import DataError
from paceline.workloads.data.stream import Block


class RowFile(ABC):
    """A file whose blocks are known. `read` may be called on several threads at a time."""

    unit: ClassVar[str] = "line"
    """What a row is called in messages."""
    is_sequential: ClassVar[bool] = False
    """Whether blocks are only quickly read one after the other."""

    def __init__(self, path: Path, blocks: Sequence[Block]) -> None:
        self.path = path
        self.blocks = blocks
        first_rows = accumulate((block.num_rows for block in blocks), initial=0)
        offsets = (block.offset for block in blocks)
        self._first_rows = dict(zip(offsets, first_rows, strict=False))

    @classmethod
    @abstractmethod
    def scan(cls, path: Path) -> Iterator[Block]:
        """Go through a file once and yield its blocks; DataError where it breaks off."""

    @abstractmethod
    def read(self, block: Block) -> Sequence[bytes]:
        """Read the rows of a block, each as it stands in the file."""

    def place(self, block: Block, row: int) -> str:
        """Say where a row of a block stands, for people."""
        return f"{self.path}, {self.unit} {self._first_rows[block.offset] + row + 1:,}"

    def whole(self, content: bytes, block: Block) -> bytes:
        """DataError unless a block has all its bytes."""
        if len(content) != block.num_bytes:
            raise self.has_changed()
        return content

    def has_changed(self) -> DataError:
        """Say that blocks are no longer where they were found."""
        return DataError(f"{self.path}: has changed since it was first looked through")
