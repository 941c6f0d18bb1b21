"""Frames: what tensors look like between two processes.

A frame is a fixed header and the raw values, which begin where any dtype may. Nothing in it is
executed, and a length is believed only after it was checked against the caps and the shape, so a
stranger's bytes cost nothing but a `WireError`.
"""

from __future__ import annotations

import math
import struct
from functools import cache, lru_cache
from typing import Final, NamedTuple

from paceline.errors import WireError
from paceline.seats import MOST_NUMBER, Role, parsed, seat_name

MAGIC: Final = b"PCLN"
VERSION: Final = 3
MOST_DIMENSIONS: Final = 4
MOST_BYTES: Final = 1 << 32
# Values travel in parts of this size. A stranger can make a seat hold no more than one part.
PART_BYTES: Final = 1 << 20
# magic, version, dtype, dimensions, role, rank, incarnation, run, shape, bytes after the header
_KIND: Final = struct.Struct("<4sBBBBII16s4QQ")
# a kind, sequence, tag
_HEADER: Final = struct.Struct(f"<{_KIND.size}sQQ")
_NUMBERS: Final = struct.Struct("<QQ")
HEADER_BYTES: Final = _HEADER.size
# What an encrypted part is longer than its values is far less than a header.
MOST_PART_BYTES: Final = HEADER_BYTES + PART_BYTES

DTYPES: Final = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8")
ITEM_BYTES: Final = (4, 8, 2, 2, 8, 4, 1)
ROLES: Final[tuple[Role, ...]] = ("worker", "server")


class Kind(NamedTuple):
    """What a frame says of itself, but for the two numbers that differ from one to the next."""

    run: bytes
    sender: str
    dtype: str
    shape: tuple[int, ...]
    incarnation: int = 0
    """How many times the sender's seat was started before."""

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES[DTYPES.index(self.dtype)]


def encode(kind: Kind, sequence: int, tag: int) -> bytes:
    """Write a header; the values follow it as they lie in memory. Refuses what nobody accepts."""
    shape = kind.shape
    if kind.dtype not in DTYPES or len(shape) > MOST_DIMENSIONS:
        raise WireError(f"{kind.dtype} of shape {tuple(shape)} cannot be sent")
    if kind.num_bytes > MOST_BYTES:
        raise WireError(f"{kind.num_bytes} bytes of values, more than {MOST_BYTES}")
    role, rank = _seat(kind.sender)
    packed = _KIND.pack(
        MAGIC,
        VERSION,
        DTYPES.index(kind.dtype),
        len(shape),
        role,
        rank,
        kind.incarnation,
        kind.run,
        *shape,
        *(0,) * (MOST_DIMENSIONS - len(shape)),
        kind.num_bytes,
    )
    return _HEADER.pack(packed, sequence, tag)


def num_parts(num_value_bytes: int) -> int:
    """How many parts so many bytes of values travel in, where they are not behind the header."""
    return max(1, -(-num_value_bytes // PART_BYTES))


def parts_of(values: memoryview) -> list[memoryview]:
    """Cut values into their parts."""
    starts = range(0, num_parts(values.nbytes) * PART_BYTES, PART_BYTES)
    return [values[start : start + PART_BYTES] for start in starts]


def number(frame: bytearray, sequence: int, tag: int) -> None:
    """Give a frame that was encoded before other numbers, to be sent again."""
    _NUMBERS.pack_into(frame, _KIND.size, sequence, tag)


def decode(head: bytes | memoryview, num_value_bytes: int, run: bytes) -> tuple[Kind, int, int]:
    """Read what a frame with so many bytes of values begins with: kind, sequence, tag.

    Raises only `WireError`.
    """
    if len(head) < HEADER_BYTES:
        raise WireError(f"{len(head)} bytes, less than a header's {HEADER_BYTES}")
    packed, sequence, tag = _HEADER.unpack_from(head)
    kind, num_bytes = _read_kind(packed)
    if kind.run != run:
        raise WireError("a frame of another run")
    if num_bytes != num_value_bytes:
        raise WireError(f"{num_value_bytes} bytes of values, {num_bytes} announced")
    return kind, sequence, tag


def sender_of(head: bytes | memoryview) -> str | None:
    """Say who a frame claims to be from; None where it is no frame of ours. For reading ahead."""
    if len(head) < HEADER_BYTES:
        return None
    try:
        return _read_kind(bytes(head[: _KIND.size]))[0].sender
    except WireError:
        return None


# A run has few kinds of frames, and thousands of each a second. What raises is not kept, so a
# stranger's damaged frames are looked at each time and displace nothing.
@lru_cache(maxsize=256)
def _read_kind(packed: bytes) -> tuple[Kind, int]:
    """Read and check a kind, and the number of bytes that it announces."""
    magic, version, dtype, dimensions, role, rank, *rest = _KIND.unpack(packed)
    incarnation, run, *sizes, num_bytes = rest
    if magic != MAGIC or version != VERSION:
        raise WireError("not a frame of this version")
    if dtype >= len(DTYPES) or dimensions > MOST_DIMENSIONS:
        raise WireError("an unknown dtype or number of dimensions")
    if role >= len(ROLES) or rank > MOST_NUMBER:
        raise WireError("an unknown sender")
    sender, shape = seat_name(ROLES[role], rank), tuple(sizes[:dimensions])
    kind = Kind(run, sender, DTYPES[dtype], shape, incarnation)
    if any(sizes[dimensions:]) or kind.num_bytes != num_bytes:
        raise WireError("a shape that does not fit its length")
    # Counted without empty dimensions: one of them must not hide that the others are absurd.
    if max(num_bytes, math.prod(each or 1 for each in kind.shape)) > MOST_BYTES:
        raise WireError(f"a shape of {kind.shape}, more than {MOST_BYTES} bytes")
    return kind, num_bytes


@cache
def _seat(name: str) -> tuple[int, int]:
    """A seat's name as two numbers: `server1` is role 1, rank 1."""
    role, rank = parsed(name)
    return ROLES.index(role), rank
