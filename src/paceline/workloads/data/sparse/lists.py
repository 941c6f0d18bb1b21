"""Where the lists of many tf.Examples are: all of them are walked through in step."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from paceline.workloads.data.sparse.examples import Array
from paceline.workloads.data.sparse.packed import Content

# Tags: the number of a field and how its content is written.
_FIRST, _SECOND = 0x0A, 0x12
FLOATS, INTEGERS = 0x12, 0x1A
KEYS: Final = (b"index", b"value", b"label")
INDEX, VALUE, LABEL = range(3)
_KEY_BYTES = 5
# A key with its tag and its length before it: of eight bytes all but the last.
_KEY_WORDS = [np.uint64(int.from_bytes(b"\x0a\x05" + key, "little")) for key in KEYS]
_KEY_MASK = np.uint64((1 << 8 * (2 + _KEY_BYTES)) - 1)
_KEY_HEAD, _KEY_HEAD_MASK = np.uint64(0x050A), np.uint64(0xFFFF)
_MOST_ENTRIES = 8


class Lists(NamedTuple):
    """The lists of many Examples: for each key, of each record."""

    kinds: Array
    begins: Array
    lengths: Array
    is_usual: Array


def lists_of(content: Content, at: Array, stops: Array) -> Lists:
    """Walk through many Examples in step and note where each list's numbers are."""
    kinds, begins, lengths = (np.zeros((len(KEYS), len(at)), np.int64) for _ in range(3))
    tag, length, at = _inner(content, at)
    is_usual = (tag == _FIRST) & (at + length == stops)
    for _ in range(_MOST_ENTRIES):
        is_open = is_usual & (at < stops)
        if not is_open.any():
            break
        entry = _entry(content, np.where(is_open, at, 0))
        is_usual &= entry.is_usual | ~is_open
        for key, word in enumerate(_KEY_WORDS):
            is_this = is_open & (entry.key == word)
            if not is_this.any():  # files are mostly of one writer: all have this key, or none
                continue
            is_usual &= ~(is_this & (kinds[key] != 0))  # the last of two would count
            np.copyto(kinds[key], entry.kind, where=is_this)
            np.copyto(begins[key], entry.begin, where=is_this)
            np.copyto(lengths[key], entry.length, where=is_this)
        at = np.where(is_open, entry.stop, at)
    return Lists(kinds, begins, lengths, is_usual & (at == stops))


class _Entry(NamedTuple):
    """One entry of each Example's map."""

    key: Array
    kind: Array
    begin: Array
    length: Array
    stop: Array
    is_usual: Array


def _entry(content: Content, at: Array) -> _Entry:
    """Read an entry of each Example's map: a key of five letters, and a packed list."""
    tag, length, at = _inner(content, at)
    stop = at + length
    is_usual = tag == _FIRST
    key = content.words(at) & _KEY_MASK
    is_usual &= key & _KEY_HEAD_MASK == _KEY_HEAD
    tag, length, at = _inner(content, at + 2 + _KEY_BYTES)
    is_usual &= (tag == _SECOND) & (at + length == stop)
    kind, length, at = _inner(content, at)
    is_usual &= ((kind == FLOATS) | (kind == INTEGERS)) & (at + length == stop)
    tag, length, at = _inner(content, at)
    is_usual &= (tag == _FIRST) & (at + length == stop)
    return _Entry(key, kind, at, length, stop, is_usual)


# By the two bytes of a length: what they say, and of how many bytes it is at least.
_TWO_BYTES = np.arange(1 << 16)
_LENGTHS = np.where(
    _TWO_BYTES & 0x80, _TWO_BYTES & 0x7F | (_TWO_BYTES & 0x7F00) >> 1, _TWO_BYTES & 0x7F
)
_SIZES = 1 + (_TWO_BYTES & 0x80 != 0) + (_TWO_BYTES & 0x8080 == 0x8080)
_LONGEST = 3


def _inner(content: Content, at: Array) -> tuple[Array, Array, Array]:
    """The tag and the length of what begins here, and where its content begins.

    A length is of at most three bytes; longer ones come out wrong.
    """
    head = content.halves(at)
    two_bytes = head >> 8 & 0xFFFF
    length, size = _LENGTHS.take(two_bytes), _SIZES.take(two_bytes)
    if size.max(initial=0) == _LONGEST:
        length |= np.where(size == _LONGEST, (head >> 24 & 0x7F) << 14, 0)
    return head & 0xFF, length, at + 1 + size
