"""tf.Example records of `index`, `value` and `label`, written without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from paceline.workloads.data.sparse.examples import Array, starts_of
from paceline.workloads.data.sparse.tfrecord import frame

# Bytes of a number of 32 bits.
_MOST_BYTES = 5
_FIRST, _SECOND, _FLOATS, _INTEGERS = b"\x0a", b"\x12", b"\x12", b"\x1a"


def framed(labels: Array, features: Array) -> Iterator[bytes]:
    """Yield a record for each row of a matrix of features, all worth one, ready for a file."""
    width = features.shape[1]
    packed, starts = _packed(features)
    bounds = starts[::width].tolist()
    for row, label in enumerate(labels.astype(np.int64).tolist()):
        index = packed[bounds[row] : bounds[row + 1]]
        yield frame(_before(len(index), width) + index + _after(width, label))


def _packed(features: Array) -> tuple[bytes, Array]:
    """All features as numbers of variable length, and where each begins."""
    flat = features.reshape(-1).astype(np.uint64)
    sizes = np.ones(len(flat), np.int64)
    for size in range(1, _MOST_BYTES):
        sizes += flat >= 1 << 7 * size
    starts = starts_of(sizes)
    packed = np.empty(starts[-1], np.uint8)
    for place in range(_MOST_BYTES):
        there = np.flatnonzero(sizes > place)
        more = np.where(sizes[there] > place + 1, 0x80, 0).astype(np.uint64)
        bits = (flat[there] >> np.uint64(7 * place)) & np.uint64(0x7F)
        packed[starts[there] + place] = (bits | more).astype(np.uint8)
    return packed.tobytes(), starts


@cache
def _before(num_bytes: int, width: int) -> bytes:
    """What stands before a record's packed index of so many bytes."""
    entry = _entry(b"index", _INTEGERS, bytes(num_bytes))
    whole = _field(_FIRST, entry + _after(width, 0))
    return whole[: len(whole) - len(_after(width, 0)) - num_bytes]


@cache
def _after(width: int, label: int) -> bytes:
    """What stands behind it: values and the label."""
    values = np.ones(width, np.float32).tobytes()
    return _entry(b"value", _FLOATS, values) + _entry(b"label", _INTEGERS, bytes([label]))


def _entry(key: bytes, kind: bytes, packed: bytes) -> bytes:
    feature = _field(_SECOND, _field(kind, _field(_FIRST, packed)))
    return _field(_FIRST, _field(_FIRST, key) + feature)


def _field(tag: bytes, content: bytes) -> bytes:
    length, number = b"", len(content)
    while number >= 0x80:
        length += bytes([number & 0x7F | 0x80])
        number >>= 7
    return tag + length + bytes([number]) + content
