"""TFRecord files: a length, the checksum of the length, a record, the checksum of the record.

Check sums are CRC-32C, rotated and offset ("masked"), as TensorFlow writes them.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
from google_crc32c import value as crc32c

from paceline.errors import DataError
from paceline.workloads.data.sparse.examples import Array
from paceline.workloads.data.sparse.raw_rows import RawRows
from paceline.workloads.data.sparse.rowfile import RowFile
from paceline.workloads.data.stream import Block

CRC_BYTES = 4
_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_AROUND = _HEAD.size + CRC_BYTES
_BLOCK_BYTES = 1 << 20


def masked_crc(content: bytes) -> int:
    """The checksum that stands behind a length or a record."""
    return int(_masked(crc32c(content)))


def frame(record: bytes) -> bytes:
    """A record as it stands in a file."""
    length = len(record).to_bytes(8, "little")
    return b"".join(
        (length, _TAIL.pack(masked_crc(length)), record, _TAIL.pack(masked_crc(record)))
    )


def begins_like_one(head: bytes) -> bool:
    """Whether these first bytes are those of a TFRecord file."""
    return len(head) >= _HEAD.size and masked_crc(head[:8]) == _HEAD.unpack_from(head)[1]


def _scan(path: Path) -> Iterator[Block]:
    """Find where records begin, a block of them at a time."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start, number, num_rows = 0, 0, 0
        stop = start
        while stop < len(content):
            number += 1
            stop = _record_end(content, stop, path, number)
            num_rows += 1
            if stop - start >= _BLOCK_BYTES:
                yield Block(path, start, stop - start, num_rows)
                start, num_rows = stop, 0
        if num_rows:
            yield Block(path, start, stop - start, num_rows)


def _record_end(content: mmap.mmap, start: int, path: Path, number: int) -> int:
    where = f"{path}, record {number:,}"
    if start + _HEAD.size > len(content):
        raise DataError(f"{where}: cut short: the file ends in its length")
    length, crc = _HEAD.unpack_from(content, start)
    if masked_crc(content[start : start + 8]) != crc:
        raise DataError(f"{where}: the checksum of its length is wrong")
    stop = start + _HEAD.size + int(length) + _TAIL.size
    if stop > len(content):
        raise DataError(f"{where}: cut short: {stop - len(content):,} bytes are missing")
    return stop


@final
class TfRecords(RowFile):
    """Records; what is read has each one's checksum behind it."""

    unit = "record"

    @classmethod
    def scan(cls, path: Path) -> Iterator[Block]:
        return _scan(path)

    def read(self, block: Block) -> RawRows:
        with self.path.open("rb") as file:
            file.seek(block.offset)
            try:
                return records(self.whole(file.read(block.num_bytes), block))
            except (struct.error, OverflowError):
                raise self.has_changed() from None


def records(content: bytes) -> RawRows:
    """Cut a block into records, each with its checksum behind it.

    `struct.error` or `OverflowError` where it does not end with one.
    """
    stops = _stops_of_short(content) or _stops(content)
    if stops[-1:] not in ([], [len(content)]):
        raise struct.error
    ends = np.array([0, *stops], np.int64)
    return RawRows(content, ends[:-1] + _HEAD.size, ends[1:])


def _stops_of_short(content: bytes) -> list[int]:
    """Where each record ends, if all are shorter than 64 KB and the last ends the block; else [].

    To read two bytes of a length takes half as long as all eight.
    """
    stops = []
    stop, size = 0, len(content)
    while stop < size - 1:
        stop += content[stop] + (content[stop + 1] << 8) + _AROUND
        stops.append(stop)
    if stop != size or not size:
        return []
    ends = np.array([0, *stops], np.int64)
    lengths = np.ndarray(size - _LENGTH.size + 1, "<u8", content, strides=(1,))[ends[:-1]]
    return stops if (lengths == np.diff(ends) - _AROUND).all() else []


def _stops(content: bytes) -> list[int]:
    stops = []
    stop, read_length = 0, _LENGTH.unpack_from
    while stop < len(content):
        stop += read_length(content, stop)[0] + _AROUND
        stops.append(stop)
    return stops


def are_intact(found: RawRows) -> Array:
    """Whether each record is as its checksum, behind it, says."""
    content, ends = found.content, found.stops - CRC_BYTES
    spans = zip(found.begins.tolist(), ends.tolist(), strict=True)
    crcs = np.array([crc32c(content[begin:end]) for begin, end in spans], np.uint64)
    places = ends[:, None] + np.arange(CRC_BYTES)
    behind = np.frombuffer(content, np.uint8)[places].view(np.uint32)[:, 0]
    right: Array = _masked(crcs) == behind
    return right


def _masked(crc: Any) -> Any:
    """Rotate and offset checksums: one, or an array of 64-bit words."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
