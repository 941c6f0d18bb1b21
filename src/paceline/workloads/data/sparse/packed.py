"""Numbers as protobuf packs them, of many lists at once."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from paceline.workloads.data.sparse.examples import Array, places_of

_PADDING = bytes(16)
# So many bytes of lists are read at a time: what is made of them stays in the cache.
_AT_ONCE_BYTES = 1 << 17
# Bytes of a number below 2^28, and of one below 2^35.
_FOUR, _FIVE = 4, 5
# By a number's length: how far a word that ends with it is shifted, so that it begins with it.
_SHIFTS_OF_FOUR = np.array([32, 24, 16, 8, 0], np.uint32)
_SHIFTS_OF_EIGHT = np.array([64, 56, 48, 40, 32, 24], np.uint64)


@final
class Content:
    """Bytes, and the words that begin at any of them; beyond the end, the last of them."""

    def __init__(self, content: bytes) -> None:
        padded = content if len(content) >= len(_PADDING) else content + _PADDING
        self.own = np.frombuffer(padded, np.uint8)
        self._halves, self._words = _at_each(self.own, np.uint32), _at_each(self.own, np.uint64)

    def bytes(self, at: Array, count: int) -> Array:
        """So many neighbouring bytes each."""
        found: Array = self.own[np.minimum(at[:, None] + np.arange(count), len(self.own) - 1)]
        return found

    def halves(self, at: Array) -> Array:
        """Four bytes each, as a number."""
        return self._halves[np.minimum(at, len(self._halves) - 1)].astype(np.int64)

    def words(self, at: Array) -> Array:
        """Eight bytes each, as a number."""
        found: Array = self._words[np.minimum(at, len(self._words) - 1)]
        return found


def _at_each(content: Array, dtype: type[np.unsignedinteger]) -> Array:
    """The words that begin at each byte; nothing is copied."""
    size = np.dtype(dtype).itemsize
    return np.ndarray(len(content) - size + 1, dtype, content, strides=(1,))


class Integers(NamedTuple):
    """Numbers of lists one behind the other, if all fit; and which lists do."""

    numbers: Array
    fits: Array


def integers(content: bytes, begins: Array, lengths: Array, counts: Array) -> Integers:
    """Read lists that should have so many numbers each, none above 2^35."""
    num_lists = len(begins)
    step = max(1, num_lists * _AT_ONCE_BYTES // max(1, int(lengths.sum())))
    parts = [slice(first, first + step) for first in range(0, max(1, num_lists), step)]
    found = [_neighbours(content, begins[part], lengths[part], counts[part]) for part in parts]
    return Integers(*(np.concatenate(each) for each in zip(*found, strict=True)))


def _neighbours(content: bytes, begins: Array, lengths: Array, counts: Array) -> Integers:
    """Read a few lists: every byte below 128 ends a number."""
    spans = zip(begins.tolist(), (begins + lengths).tolist(), strict=True)
    own = np.frombuffer(b"".join([_PADDING, *[content[a:b] for a, b in spans]]), np.uint8)
    lasts = np.flatnonzero(own < 0x80)[len(_PADDING) - 1 :]  # with one before the first
    stops = np.cumsum(lengths) + len(_PADDING)
    fits = _fitting(lasts, stops, np.cumsum(counts))
    if not fits.all():
        return Integers(lasts[1:], fits)
    sizes = lasts[1:] - lasts[:-1]
    most = int(sizes.max(initial=0))
    if most > _FIVE:
        fits[np.repeat(np.arange(len(counts)), counts)[sizes > _FIVE]] = False
        return Integers(lasts[1:], fits)
    return Integers((_joined if most <= _FOUR else _longer)(own, lasts[1:], sizes), fits)


def _fitting(lasts: Array, stops: Array, bounds: Array) -> Array:
    """Which lists end with a number, and have as many as they should."""
    if len(bounds) and bounds[-1] == len(lasts) - 1:
        fits: Array = lasts.take(bounds) + 1 == stops
        if fits.all():
            return fits
    found = np.searchsorted(lasts, stops)  # with the one before the first
    is_last = lasts.take(found - 1) + 1 == stops
    right: Array = is_last & (np.diff(found, prepend=1) == np.diff(bounds, prepend=0))
    return right


def _joined(own: Array, lasts: Array, sizes: Array) -> Array:
    """Join the seven bits that each byte of a number has, of at most four."""
    words: Array = _at_each(own, np.uint32)[lasts - (_FOUR - 1)]
    words >>= _SHIFTS_OF_FOUR.take(sizes)
    upper = words & np.uint32(0x7F007F00)
    upper >>= np.uint32(1)
    words &= np.uint32(0x007F007F)
    words |= upper
    upper = words >> np.uint32(2)
    upper &= np.uint32(0x3FFF << 14)
    words &= np.uint32(0x3FFF)
    words |= upper
    return words


def _longer(own: Array, lasts: Array, sizes: Array) -> Array:
    """The same of at most five bytes."""
    words = _at_each(own, np.uint64)[lasts - 7]
    words >>= _SHIFTS_OF_EIGHT.take(sizes)
    numbers: Array = words & np.uint64(0x7F)
    for place in range(1, _FIVE):
        words >>= np.uint64(1)
        numbers |= words & np.uint64(0x7F << 7 * place)
    return numbers


def floats(content: Array, begins: Array, lengths: Array) -> Array:
    """All numbers of packed lists of floats, one behind the other."""
    if len(lengths) and (lengths == lengths[0]).all() and lengths[0] > 0:
        size = int(lengths[0])
        shape = (len(content) - size + 1, size)
        stretches = np.lib.stride_tricks.as_strided(content, shape, (1, 1))
        return np.ascontiguousarray(stretches[begins]).reshape(-1).view(np.float32)
    return content[places_of(begins, lengths)].view(np.float32)
