"""What a Parquet file says of its sizes, looked up before a library allocates memory by them.

polars takes the numbers in a file's footer and pages for granted: a changed one ends the process,
where it asks for more memory than there is. So all of them are read here first: rows of each group,
values of each column and page, bytes of each page. They are written in Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, final

_MAGIC: Final = b"PAR1"
# Ten rows per second of six workers for four days.
_MOST_ROWS: Final = 20_000_000
_MOST_VALUES: Final = 100_000_000
_MOST_PAGE_BYTES: Final = 1 << 28
# Reading these takes time and memory of ours: a table of 20 million rows has far less.
_MOST_FOOTER_BYTES: Final = 1 << 22
_MOST_HEADER_BYTES: Final = 1 << 20
_MOST_PAGES: Final = 100_000
_MOST_DEPTH: Final = 16
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3

ThriftFields = dict[int, Any]


def check(content: memoryview) -> int:
    """See that sizes go together and can be; returns how many rows there are.

    Raises `ValueError` where they do not.
    """
    if len(content) < 12 or {bytes(content[:4]), bytes(content[-4:])} != {_MAGIC}:
        raise ValueError("not a Parquet file")
    (length,) = struct.unpack("<I", content[-8:-4])
    if length > len(content) - 12:
        raise ValueError("its footer is longer than it is")
    if length > _MOST_FOOTER_BYTES:
        raise ValueError(f"a footer of {length:,} bytes, more than {_MOST_FOOTER_BYTES:,}")
    footer = _Thrift(content[: len(content) - 8], len(content) - 8 - length).structure()
    num_rows = _count(footer, 3, _MOST_ROWS, "rows")
    groups = _structures(footer, 4)
    if sum(_count(each, 3, _MOST_ROWS, "rows") for each in groups) != num_rows:
        raise ValueError("its groups have other rows than it has")
    num_pages = 0
    for group in groups:
        for column in _structures(group, 1):
            num_pages += _check_column(content, _structure(column, 3), _MOST_PAGES - num_pages)
    return num_rows


def _check_column(content: memoryview, column: ThriftFields, most_pages: int) -> int:
    """See that a column lies in the file; returns how many pages it has."""
    num_values = _count(column, 5, _MOST_VALUES, "values")
    size = _count(column, 7, len(content), "bytes")
    starts = [column[key] for key in (9, 11) if isinstance(column.get(key), int)]
    first = min((each for each in starts if each > 0), default=-1)
    if first < 4 or first + size > len(content) - 8:
        raise ValueError("a column outside of the file")
    values = list(islice(_page_values(content, first, first + size), most_pages + 1))
    if len(values) > most_pages:
        raise ValueError(f"more than {_MOST_PAGES:,} pages")
    if sum(values) != num_values:
        raise ValueError("a column whose pages have other values than it has")
    return max(1, len(values))


def _page_values(content: memoryview, at: int, end: int) -> Iterator[int]:
    """Yield how many values each page has; one that is no data has none."""
    while at < end:
        reader = _Thrift(content[: min(end, at + _MOST_HEADER_BYTES)], at)
        page = reader.structure()
        size = _count(page, 2, _MOST_PAGE_BYTES, "bytes in a page")
        at = reader.at + _count(page, 3, end - reader.at, "bytes in a page")
        kind = _count(page, 1, _DATA_V2, "kinds of pages")
        if kind == _DICTIONARY:
            _count(_structure(page, 7), 1, 8 * size + 8, "values in a dictionary")
            yield 0
        elif kind in {_DATA, _DATA_V2}:
            header = _structure(page, 5 if kind == _DATA else 8)
            yield _count(header, 1, _MOST_VALUES, "values in a page")
            for key in (2, 3, 5, 6) if kind == _DATA_V2 else ():
                _count(header, key, _MOST_VALUES, "values in a page")
        else:
            raise ValueError("a page of another kind")


def _count(fields: ThriftFields, key: int, most: int, what: str) -> int:
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        told = f"{value:,}" if isinstance(value, int) else "no number of"
        raise ValueError(f"{told} {what}, where at most {most:,} can be read")
    return value


def _structure(fields: ThriftFields, key: int) -> ThriftFields:
    (value,) = _structures({key: [fields.get(key)]}, key)
    return value


def _structures(fields: ThriftFields, key: int) -> list[ThriftFields]:
    values = fields.get(key)
    if not isinstance(values, list) or not all(isinstance(each, dict) for each in values):
        raise ValueError("a part is missing")
    return values


@final
class _Thrift:
    """Reads values of the compact protocol from somewhere on."""

    def __init__(self, content: memoryview, at: int) -> None:
        self._content = content
        self.at = at

    def structure(self, depth: int = 0) -> ThriftFields:
        """Read fields by their numbers."""
        if depth > _MOST_DEPTH:
            raise ValueError("nested too deeply")
        fields: ThriftFields = {}
        key = 0
        while head := self._byte():
            key = key + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[key] = kind == 1 if kind in {1, 2} else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in {1, 2, 3}:
            return self._byte()
        if kind in {4, 5, 6}:
            return self._signed()
        if kind == 7:
            return self._skip(8)
        if kind == 8:
            return self._skip(self._unsigned())
        if kind in {9, 10}:
            return self._list(depth + 1)
        if kind == 12:
            return self.structure(depth + 1)
        raise ValueError("a value of no known type")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        size = self._unsigned() if head >> 4 == 15 else head >> 4
        if size > len(self._content) - self.at or depth > _MOST_DEPTH:
            raise ValueError("a list longer than the file")
        return [self._value(head & 15, depth) for _ in range(size)]

    def _skip(self, size: int) -> None:
        if size > len(self._content) - self.at:
            raise ValueError("a text longer than the file")
        self.at += size

    def _byte(self) -> int:
        if self.at >= len(self._content):
            raise ValueError("it breaks off")
        self.at += 1
        return self._content[self.at - 1]

    def _unsigned(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number beyond 64 bits")

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
