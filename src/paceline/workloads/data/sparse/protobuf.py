"""The little of protocol buffers that a tf.Example needs, for one message."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def varint(message: bytes, start: int) -> tuple[int, int]:
    """Read a number of variable length; returns it and where it ends."""
    value = 0
    for place in range(start, min(start + 10, len(message))):
        value |= (message[place] & 0x7F) << 7 * (place - start)
        if message[place] < 0x80:
            return value, place + 1
    raise ValueError("it is not a tf.Example: a number that does not end")


def signed(value: int) -> int:
    """What a number of 64 bits means as an int64."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the content of each field of a message."""
    place = 0
    while place < len(message):
        tag, place = varint(message, place)
        kind, content = tag & 7, 0
        if kind == _VARINT:
            content, place = varint(message, place)
            yield tag >> 3, content
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(kind, 0)
        if kind == _LENGTH:
            length, place = varint(message, place)
        elif not length:
            raise ValueError(f"it is not a tf.Example: a field of kind {kind}")
        if place + length > len(message):
            raise ValueError("it is not a tf.Example: a field that goes on after its end")
        yield tag >> 3, message[place : place + length]
        place += length


def messages(message: bytes, number: int) -> list[bytes]:
    """The fields of one number that are messages, or strings, themselves."""
    found = fields(message)
    return [content for each, content in found if each == number and isinstance(content, bytes)]


def integers(message: bytes) -> list[int]:
    """The numbers of an Int64List, packed or not."""
    found: list[int] = []
    for _, content in fields(message):
        if isinstance(content, int):
            found.append(signed(content))
            continue
        place = 0
        while place < len(content):
            value, place = varint(content, place)
            found.append(signed(value))
    return found


def floats(message: bytes) -> list[float]:
    """The numbers of a FloatList, packed or not."""
    packed = b"".join(content for _, content in fields(message) if isinstance(content, bytes))
    if len(packed) % 4:
        raise ValueError("it is not a tf.Example: a float of fewer than 4 bytes")
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))
