"""IDX, the format of MNIST's files: two zero bytes, a type, a rank, the sizes, the values.

Files may be raw or gzipped; which one is told by their first bytes, not by their name. A header
is believed only as far as the file could hold what it promises, so a damaged one cannot make us
allocate memory for it.
"""

from __future__ import annotations

import gzip
import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from paceline.errors import DataError

Array = npt.NDArray[Any]

DTYPES: dict[int, np.dtype[Any]] = {
    0x08: np.dtype(">u1"),
    0x09: np.dtype(">i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
GZIP_MAGIC = b"\x1f\x8b"
# Deflate cannot do better than 1032 to 1, so a file of n bytes holds at most about 1032 n.
MAX_DEFLATE_RATIO = 1032
_PIECE_BYTES = 1 << 20


def read(path: Path) -> Array:
    """Read an IDX file, raw or gzipped, into a writable array; DataError if it is not one."""
    try:
        with path.open("rb") as stream:
            zipped = stream.read(2) == GZIP_MAGIC
            stream.seek(0)
            file_bytes = os.fstat(stream.fileno()).st_size
            if not zipped:
                return _read_stream(stream, path, file_bytes)
            with gzip.GzipFile(fileobj=stream) as unzipped:
                return _read_stream(unzipped, path, file_bytes * MAX_DEFLATE_RATIO)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: gzip data is corrupt or cut short: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def write(path: Path, array: Array, *, zipped: bool = False) -> None:
    """Write an array as IDX; zipped bytes carry no time or name, so they can be reproduced."""
    content = _header(array) + array.astype(array.dtype.newbyteorder(">")).tobytes()
    part = path.with_name(f".{path.name}.writing")
    try:
        with part.open("wb") as stream:
            if zipped:
                with gzip.GzipFile("", "wb", compresslevel=9, fileobj=stream, mtime=0) as target:
                    target.write(content)
            else:
                stream.write(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _read_stream(stream: io.BufferedIOBase, path: Path, room_bytes: int) -> Array:
    dtype, shape = _read_header(stream, path)
    value_bytes = dtype.itemsize
    for size in shape:
        value_bytes *= size  # Python's integers: a product of sizes cannot overflow
    if value_bytes > room_bytes:
        raise DataError(
            f"{path}: its header promises {value_bytes:,} bytes ({_times(shape)} of {dtype.name}),"
            f" more than the file can hold"
        )
    content = _read_up_to(stream, value_bytes)
    if len(content) < value_bytes:
        raise DataError(f"{path}: cut short: {len(content):,} of {value_bytes:,} bytes of values")
    if stream.read(1):
        raise DataError(f"{path}: goes on after the {value_bytes:,} bytes its header promises")
    values = np.frombuffer(content, dtype=dtype).reshape(shape)
    return values.astype(dtype.newbyteorder("="), copy=False)


def _read_header(stream: io.BufferedIOBase, path: Path) -> tuple[np.dtype[Any], tuple[int, ...]]:
    magic = stream.read(4)
    if len(magic) < 4:
        raise DataError(f"{path}: cut short: {len(magic)} of 4 bytes of header")
    zero, code, rank = struct.unpack(">HBB", magic)
    if zero != 0 or code not in DTYPES:
        raise DataError(f"{path}: not an IDX file: begins with {magic.hex(' ')}")
    sizes = stream.read(4 * rank)
    if len(sizes) < 4 * rank:
        raise DataError(f"{path}: cut short: {len(sizes)} of {4 * rank} bytes of sizes")
    return DTYPES[code], struct.unpack(f">{rank}I", sizes)


def _read_up_to(stream: io.BufferedIOBase, limit_bytes: int) -> bytearray:
    # Piece by piece: memory follows what arrives, not what was promised. A bytearray, because
    # the array made of it is then writable, as torch.from_numpy wants it.
    content = bytearray()
    while piece := stream.read(min(_PIECE_BYTES, limit_bytes - len(content))):
        content += piece
    return content


def _header(array: Array) -> bytes:
    big_endian = array.dtype.newbyteorder(">")
    codes = [code for code, dtype in DTYPES.items() if dtype == big_endian]
    if not codes:
        choices = ", ".join(dtype.name for dtype in DTYPES.values())
        raise DataError(f"IDX has no type for {array.dtype} (choices: {choices})")
    return struct.pack(f">HBB{array.ndim}I", 0, codes[0], array.ndim, *array.shape)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{size:,}" for size in shape)
