"""The numbers that Criteo's features get.

A feature is a column and what stands in it. It is known by a 64-bit key, and numbered either by
hashing the key or by a vocabulary. An empty field is a feature too, one a column.
"""

from __future__ import annotations

import numpy as np

from paceline.workloads.data.sparse.examples import Array

NUM_INTEGERS = 13
NUM_CATEGORIES = 26
NUM_COLUMNS = NUM_INTEGERS + NUM_CATEGORIES
COLUMN_NAMES = tuple(
    [f"I{number}" for number in range(1, NUM_INTEGERS + 1)]
    + [f"C{number}" for number in range(1, NUM_CATEGORIES + 1)]
)

_PRESENT = np.uint64(1 << 32)
_COLUMN_BITS = (np.arange(NUM_COLUMNS, dtype=np.uint64) << np.uint64(33))[None, :]


def keys(values: Array, is_missing: Array) -> Array:
    """Give the key of each field of a matrix of 32-bit values, a line a row."""
    made = values.astype(np.uint64)
    made |= _PRESENT
    made[is_missing] = 0
    made |= _COLUMN_BITS
    return made


def buckets(integers: Array) -> Array:
    """Give the bucket of each integer: floor(ln(v)^2) above 2, below that v - 2 itself.

    So counts fall into ever wider buckets, as is usual for this data set, and the small numbers,
    zero and the negative ones each have a bucket of their own.
    """
    large = np.maximum(integers, 1).astype(np.float64)
    squares = np.square(np.log(large, out=large), out=large).astype(np.int64)
    return np.where(integers > 2, squares, integers - 2)


def mixed(numbers: Array) -> Array:
    """Mix 64-bit numbers, so that near ones become far ones: splitmix64 but for its last step."""
    made = numbers + np.uint64(0x9E3779B97F4A7C15)
    made ^= made >> np.uint64(30)
    made *= np.uint64(0xBF58476D1CE4E5B9)
    made ^= made >> np.uint64(27)
    made *= np.uint64(0x94D049BB133111EB)
    return made


def hashed(feature_keys: Array) -> Array:
    """Hash keys to 32 bits."""
    return (mixed(feature_keys) >> np.uint64(32)).astype(np.uint32)


def numbered(hashes: Array, num_features: int) -> Array:
    """Spread 32-bit hashes evenly over so many features."""
    return (hashes.astype(np.uint64) * np.uint64(num_features)) >> np.uint64(32)
