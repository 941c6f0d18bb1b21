"""Frames: what tensors look like between two processes.

A frame is a fixed header and the raw values. Nothing in it is executed, and a length is believed
only after it was checked against the caps and the shape, so a stranger's bytes cost nothing but
a `WireError`.
"""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import Final, NamedTuple

from paceline.errors import WireError

MAGIC: Final = b"PCLN"
VERSION: Final = 1
MOST_DIMENSIONS: Final = 4
MOST_BYTES: Final = 1 << 32
# magic, version, dtype, dimensions, role, rank, run, sequence, tag, shape, bytes that follow
_HEADER: Final = struct.Struct("<4sBBBBI16sQQ4QQ")
HEADER_BYTES: Final = _HEADER.size

DTYPES: Final = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8")
ITEM_BYTES: Final = (4, 8, 2, 2, 8, 4, 1)
ROLES: Final = ("worker", "server")


class Header(NamedTuple):
    """What a frame says of itself."""

    sender: str
    run: bytes
    sequence: int
    tag: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES[DTYPES.index(self.dtype)]


def encode(header: Header) -> bytes:
    """Write a header; the values follow it as they lie in memory. Refuses what nobody accepts."""
    if header.dtype not in DTYPES or len(header.shape) > MOST_DIMENSIONS:
        raise WireError(f"{header.dtype} of shape {header.shape} cannot be sent")
    if header.num_bytes > MOST_BYTES:
        raise WireError(f"{header.num_bytes} bytes of values, more than {MOST_BYTES}")
    role, rank = _seat(header.sender)
    shape = header.shape + (0,) * (MOST_DIMENSIONS - len(header.shape))
    return _HEADER.pack(
        MAGIC,
        VERSION,
        DTYPES.index(header.dtype),
        len(header.shape),
        role,
        rank,
        header.run,
        header.sequence,
        header.tag,
        *shape,
        header.num_bytes,
    )


def decode(head: bytes, num_value_bytes: int, run: bytes) -> Header:
    """Read a header that came with so many bytes of values. Raises only `WireError`."""
    if len(head) != HEADER_BYTES:
        raise WireError(f"a header of {len(head)} bytes, not {HEADER_BYTES}")
    magic, version, dtype, dimensions, role, rank, its_run, sequence, tag, *rest = _HEADER.unpack(
        head
    )
    *shape, length = rest
    if magic != MAGIC or version != VERSION:
        raise WireError("not a frame of this version")
    if its_run != run:
        raise WireError("a frame of another run")
    if dtype >= len(DTYPES) or role >= len(ROLES) or dimensions > MOST_DIMENSIONS:
        raise WireError("an unknown dtype, role or number of dimensions")
    header = Header(
        sender=f"{ROLES[role]}{rank}",
        run=its_run,
        sequence=sequence,
        tag=tag,
        dtype=DTYPES[dtype],
        shape=tuple(shape[:dimensions]),
    )
    if any(shape[dimensions:]) or header.num_bytes != length:
        raise WireError("a shape that does not fit its length")
    # Counted without empty dimensions: one of them must not hide that the others are absurd.
    if max(length, math.prod(each or 1 for each in header.shape)) > MOST_BYTES:
        raise WireError(f"a shape of {header.shape}, more than {MOST_BYTES} bytes")
    if length != num_value_bytes:
        raise WireError(f"{num_value_bytes} bytes of values, {length} announced")
    return header


@cache
def _seat(name: str) -> tuple[int, int]:
    """A seat's name as two numbers: `server1` is role 1, rank 1."""
    role = name.rstrip("0123456789")
    return ROLES.index(role), int(name.removeprefix(role))
