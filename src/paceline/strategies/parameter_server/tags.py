"""The tag of a message: version, push, chunk and flags in one number."""

from __future__ import annotations

from typing import Final, NamedTuple

from paceline.strategies.parameter_server.cuts import CHUNK_BITS

# With ROWS: these rows are part of a push; else their values are wanted.
PUSHED: Final = 64  # a bit that no flag of `link` has
_FLAG_BITS: Final = 10
# Messages of one worker come in order: a push must only be unlike the one before.
_PUSH_BITS: Final = 2
NUM_PUSHES: Final = 1 << _PUSH_BITS


class Tag(NamedTuple):
    """What a message's tag says."""

    version: int
    push: int
    chunk: int
    flags: int


def pack(version: int, chunk: int, flags: int, push: int = 0) -> int:
    """Make a message's tag."""
    return (((version << _PUSH_BITS | push) << CHUNK_BITS | chunk) << _FLAG_BITS) | flags


def unpack(tag: int) -> Tag:
    """Read a message's tag."""
    chunk = (tag >> _FLAG_BITS) & ((1 << CHUNK_BITS) - 1)
    push = (tag >> (_FLAG_BITS + CHUNK_BITS)) & (NUM_PUSHES - 1)
    flags = tag & ((1 << _FLAG_BITS) - 1)
    return Tag(tag >> (_FLAG_BITS + CHUNK_BITS + _PUSH_BITS), push, chunk, flags)
