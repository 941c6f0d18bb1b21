"""Pictures changed at random, the same way in every process.

What is drawn for a picture follows from the seed and from its position in the order of rows alone,
so N workers at batch B draw exactly what one worker draws at N times B.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from paceline.workloads.data.images import ByteArray

Bits64 = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

# The constants of splitmix64 (Steele, Lea and Flood, 2014).
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS: Final = (np.uint64(30), np.uint64(27))
_BITS_EACH: Final = np.uint64(20)


class Changes(NamedTuple):
    """For each picture of a batch: two random fractions of one, and whether it is mirrored."""

    down: npt.NDArray[np.float64]
    right: npt.NDArray[np.float64]
    mirrored: npt.NDArray[np.bool_]


def changes(seed: int, position: int, count: int) -> Changes:
    """Draw for `count` pictures, of which the first stands at `position`."""
    bits = random_bits(seed, position, count)
    low, middle = bits, bits >> _BITS_EACH
    return Changes(_fraction(low), _fraction(middle), (bits >> np.uint64(63)).astype(np.bool_))


def random_bits(seed: int, position: int, count: int) -> Bits64:
    """Give 64 random bits for each of `count` positions: a hash of seed and position."""
    counters = np.arange(position, position + count, dtype=np.uint64)
    return _mixed(_mixed(np.full(1, seed, dtype=np.uint64)) + counters)


def crops(pixels: ByteArray, padding: int, drawn: Changes) -> ByteArray:
    """Cut each of [n, channel, height, width] anew out of itself, padded with black."""
    edges = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(pixels, edges)
    # [n, 1, down, right, channel, height, width]: every place to cut at, without a copy.
    cuts = np.lib.stride_tricks.sliding_window_view(padded, pixels.shape[1:], axis=(1, 2, 3))
    num_places = 2 * padding + 1
    down, right = ((each * num_places).astype(np.int64) for each in (drawn.down, drawn.right))
    return mirror(cuts[np.arange(len(pixels)), 0, down, right], drawn)


def mirror(pixels: ByteArray, drawn: Changes) -> ByteArray:
    """Turn left and right about in the pictures drawn for it, in place."""
    pixels[drawn.mirrored] = pixels[drawn.mirrored, ..., ::-1]
    return pixels


def _fraction(bits: Bits64) -> npt.NDArray[np.float64]:
    """Make a fraction below one of the lowest bits."""
    scale = 1 << int(_BITS_EACH)
    return (bits & np.uint64(scale - 1)).astype(np.float64) / scale


def _mixed(numbers: Bits64) -> Bits64:
    mixed = (numbers + np.uint64(1)) * _GOLDEN
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=True):
        mixed = (mixed ^ (mixed >> shift)) * factor
    return mixed ^ (mixed >> np.uint64(31))
