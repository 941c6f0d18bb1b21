"""Eight characters at a time as one 64-bit word: numbers are read from text without a loop.

The first character of a field is the lowest byte of its word. A field of fewer than eight is
filled up with zeros in front.
"""

from __future__ import annotations

import numpy as np

from paceline.workloads.data.sparse.examples import Array

WIDTH = 8


def _each(byte: int) -> np.uint64:
    """A word of eight equal bytes."""
    return np.uint64(int.from_bytes(bytes([byte]) * WIDTH, "little"))


_ZEROS = _each(ord("0"))
# By length of the field: the bytes that are its own, and '0' in the others.
_OWN = np.array([(1 << 64) - (1 << 8 * (WIDTH - n)) for n in range(WIDTH + 1)], np.uint64)
_FILL = ~_OWN & _ZEROS
_HIGH = _each(0x80)


def padded(text: bytes) -> Array:
    """The characters of a text, with room in front so that a word can end anywhere."""
    return np.frombuffer(bytes(WIDTH) + text, np.uint8)


def word_of(text: bytes) -> np.uint64:
    """The word of one short field."""
    return np.uint64(int.from_bytes(text.rjust(WIDTH, b"0"), "little"))


def words(characters: Array, ends: Array, lengths: Array) -> Array:
    """The fields that end before `ends`; what is longer than a word is cut in front."""
    first = characters[:WIDTH].view(np.uint64)
    at_any_byte = np.lib.stride_tricks.as_strided(first, (len(characters) - WIDTH + 1,), (1,))
    own = np.minimum(lengths, WIDTH)
    taken: Array = at_any_byte[ends - WIDTH]
    taken &= _OWN[own]
    taken |= _FILL[own]
    return taken


def not_decimal(fields: Array) -> Array:
    """Zero where all eight characters are decimal digits; else its high bits mark the others."""
    digits = fields ^ _ZEROS
    marks = digits + _each(0x7F - 9)
    marks |= digits
    marks &= _HIGH
    return marks


def decimal(fields: Array) -> Array:
    """Eight decimal digits as a number."""
    digits = fields ^ _ZEROS
    digits = (digits * np.uint64(10) + (digits >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    digits = (digits * np.uint64(100) + (digits >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (digits * np.uint64(10_000) + (digits >> np.uint64(32))) & np.uint64(0xFFFFFFFF)


def not_hexadecimal(fields: Array) -> Array:
    """Zero where all eight characters are hexadecimal digits."""
    letters = (fields | _each(0x20)) ^ _each(0x60)  # a to f, large or small: 1 to 6
    not_letters = (letters + _each(0x7F - 6)) | ~(letters + _each(0x7F)) | letters
    not_letters &= not_decimal(fields)
    marks: Array = not_letters & _HIGH
    return marks


def hexadecimal(fields: Array) -> Array:
    """Eight hexadecimal digits as a number."""
    digits = (fields & _each(0x0F)) + ((fields >> np.uint64(6)) & _each(0x01)) * np.uint64(9)
    digits = (digits * np.uint64(16) + (digits >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    digits = (digits * np.uint64(256) + (digits >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (digits * np.uint64(65_536) + (digits >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
