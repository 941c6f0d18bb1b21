"""Files of lines, plain or gzip, in blocks of about a megabyte that end with a line."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, final

from paceline.errors import DataError
from paceline.workloads.data.sparse.rowfile import RowFile
from paceline.workloads.data.stream import Block

_BLOCK_BYTES = 1 << 20
_MOST_LINE_BYTES = 1 << 26
# Who shuffles a window of rows asks for its blocks in any order, but not further apart than this.
_MOST_PASSED = 80
_GZIP_MAGIC = b"\x1f\x8b"


def is_gzip(head: bytes) -> bool:
    """Whether these first bytes are those of a gzip file."""
    return head.startswith(_GZIP_MAGIC)


@final
class PlainText(RowFile):
    """Lines that can be read from anywhere in the file."""

    @classmethod
    def scan(cls, path: Path) -> Iterator[Block]:
        with path.open("rb") as file:
            yield from _blocks(file, path)

    def read(self, block: Block) -> list[bytes]:
        with self.path.open("rb") as file:
            file.seek(block.offset)
            return _lines(self.whole(file.read(block.num_bytes), block))


@final
class GzipText(RowFile):
    """Lines that can only be read from the beginning on.

    Blocks that are passed on the way to the one asked for are kept for a while: they are asked
    for next. To go back further is to begin again.
    """

    is_sequential = True

    def __init__(self, path: Path, blocks: Sequence[Block]) -> None:
        super().__init__(path, blocks)
        self._lock = threading.Lock()
        self._numbers = {block.offset: number for number, block in enumerate(blocks)}
        self._passed: OrderedDict[int, bytes] = OrderedDict()
        self._file: _Unpacked | None = None
        self._next = 0

    @classmethod
    def scan(cls, path: Path) -> Iterator[Block]:
        return _blocks(_Unpacked(path), path)

    def read(self, block: Block) -> list[bytes]:
        with self._lock:
            return _lines(self.whole(self._content(self._numbers[block.offset]), block))

    def _content(self, number: int) -> bytes:
        if number in self._passed:
            return self._passed.pop(number)
        if self._file is None or number < self._next:
            self._file = _Unpacked(self.path)
            self._next = 0
            self._passed.clear()
        while self._next < number:
            passed = self._next
            self._passed[passed] = self._advance(self._file)
            if len(self._passed) > _MOST_PASSED:
                self._passed.popitem(last=False)
        return self._advance(self._file)

    def _advance(self, file: _Unpacked) -> bytes:
        content = file.read(self.blocks[self._next].num_bytes)
        self._next += 1
        return content


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@final
class _Unpacked:
    """What a gzip file holds; DataError, after the last good bytes, where it breaks off."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = gzip.open(path)  # noqa: SIM115 - closed with the reader it belongs to
        self._num_lines = 0
        self._rest = b""
        self._error = ""

    def read(self, size: int) -> bytes:
        """Give as much as asked for, less only where the file ends or breaks off."""
        pieces, num_bytes = [self._rest], len(self._rest)
        while num_bytes < size and (piece := self._read_some()):
            pieces.append(piece)
            num_bytes += len(piece)
        content = b"".join(pieces)
        if not content and self._error:
            raise DataError(f"{self._path}: {self._error} after line {self._num_lines:,}")
        content, self._rest = content[:size], content[size:]
        self._num_lines += content.count(b"\n")
        return content

    def _read_some(self) -> bytes:
        try:
            return b"" if self._error else self._file.read1(_BLOCK_BYTES)
        except EOFError:
            self._error = "cut short: the gzip stream breaks off"
        except (OSError, zlib.error) as error:
            self._error = f"damaged ({error})"
        return b""


def _blocks(file: _Readable, path: Path) -> Iterator[Block]:
    """Cut what a file holds into blocks of whole lines."""
    offset, rest = 0, b""
    while piece := file.read(_BLOCK_BYTES):
        content = rest + piece
        cut = content.rfind(b"\n") + 1
        if cut:
            yield Block(path, offset, cut, content.count(b"\n", 0, cut))
        elif len(content) > _MOST_LINE_BYTES:
            raise DataError(
                f"{path}: a line of over {_MOST_LINE_BYTES:,} bytes: not a text of rows"
            )
        offset, rest = offset + cut, content[cut:]
    if rest:
        yield Block(path, offset, len(rest), 1)


def _lines(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines
