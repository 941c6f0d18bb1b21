"""Criteo's text: a label, 13 integers and 26 hexadecimal categories a line, tabs between them.

Whole blocks of lines are read at once. A line that is unusual in any way is left to `parse_line`,
which is slow, and the word on what is right.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from paceline.workloads.data.sparse import features
from paceline.workloads.data.sparse.examples import Array
from paceline.workloads.data.sparse.features import COLUMN_NAMES, NUM_COLUMNS, NUM_INTEGERS
from paceline.workloads.data.sparse.words import (
    WIDTH,
    decimal,
    hexadecimal,
    not_decimal,
    not_hexadecimal,
    padded,
    word_of,
    words,
)

NUM_FIELDS = NUM_COLUMNS + 1
_LABELS = {b"0": 0.0, b"1": 1.0, b"-1": 0.0, b"+1": 1.0}
_ZERO_WORDS = np.array([word_of(text) for text, value in _LABELS.items() if not value])
_ONE_WORDS = np.array([word_of(text) for text, value in _LABELS.items() if value])
_MINUS = np.uint64(ord("-"))
_INTEGER = re.compile(rb"[+-]?[0-9]{1,18}")
_CATEGORY = re.compile(rb"[0-9a-fA-F]{1,8}")
_LOW_BITS = 0xFFFFFFFF


class ParsedLines(NamedTuple):
    """The good lines of a block, and what is wrong with the others."""

    labels: Array  # float32
    keys: Array  # [n, 39], see `features`
    bad: dict[int, str]  # a line's number within the block, from 0 on: what is wrong with it


def parse(text: bytes) -> ParsedLines:
    """Read lines, each of which ends in a newline."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    characters = padded(text)
    ends = np.flatnonzero((characters - np.uint8(ord("\t"))) < 2)  # a newline is a tab + 1
    lasts = np.flatnonzero(characters[ends] == ord("\n"))
    is_usual = np.diff(lasts, prepend=-1) == NUM_FIELDS
    stops = ends.reshape(-1, NUM_FIELDS) if is_usual.all() else _fields(ends, lasts[is_usual])
    starts = np.empty_like(stops)
    starts[:, 1:] = stops[:, :-1] + 1
    line_stops = ends[lasts]
    line_starts = np.concatenate([[WIDTH], line_stops[:-1] + 1])
    starts[:, 0] = line_starts[is_usual]

    labels: Array = np.empty(len(lasts), np.float32)
    keys: Array = np.empty((len(lasts), NUM_COLUMNS), np.uint64)
    labels[is_usual], keys[is_usual], is_odd = _usual_lines(characters, starts, stops)
    is_usual[np.flatnonzero(is_usual)[is_odd]] = False
    bad: dict[int, str] = {}
    for line in np.flatnonzero(~is_usual).tolist():
        try:
            labels[line], keys[line] = parse_line(
                characters[line_starts[line] : line_stops[line]].tobytes()
            )
        except ValueError as error:
            bad[line] = str(error)
    if bad:
        labels, keys = (np.delete(each, list(bad), axis=0) for each in (labels, keys))
    return ParsedLines(labels, keys, bad)


def parse_line(line: bytes) -> tuple[float, Array]:
    """Read one line, without its newline. ValueError says what is wrong with it."""
    label, *fields = line.split(b"\t")
    if not line:
        raise ValueError("an empty line")
    if len(fields) != NUM_COLUMNS:
        raise ValueError(f"{len(fields) + 1} columns, not {NUM_FIELDS}")
    if label not in _LABELS:
        raise ValueError(f"label {_shown(label)} is neither 0 nor 1 (nor -1 nor +1)")
    integers, categories = fields[:NUM_INTEGERS], fields[NUM_INTEGERS:]
    numbers = [_integer(*each) for each in zip(COLUMN_NAMES, integers, strict=False)]
    names = COLUMN_NAMES[NUM_INTEGERS:]
    values = features.buckets(np.array(numbers, np.int64)).tolist()
    values += [_category(*each) for each in zip(names, categories, strict=True)]
    is_missing = np.array([[not field for field in fields]])
    row = np.array([[value & _LOW_BITS for value in values]], np.uint64)
    return _LABELS[label], features.keys(row, is_missing)[0]


def _integer(column: str, field: bytes) -> int:
    if field and not _INTEGER.fullmatch(field):
        raise ValueError(f"column {column}: {_shown(field)} is not an integer")
    return int(field or b"0")


def _category(column: str, field: bytes) -> int:
    if field and not _CATEGORY.fullmatch(field):
        what = "is not a hexadecimal number of at most 8 digits"
        raise ValueError(f"column {column}: {_shown(field)} {what}")
    return int(field or b"0", 16)


def _shown(field: bytes) -> str:
    text = field[:24].decode("utf-8", "backslashreplace")
    return repr(text + "…" if len(field) > 24 else text)


def _fields(ends: Array, lasts: Array) -> Array:
    """Where each field of the lines that end at `lasts` ends, a line a row."""
    places = lasts[:, None] + np.arange(1 - NUM_FIELDS, 1)
    stops: Array = ends[places]
    return stops


def _usual_lines(characters: Array, starts: Array, stops: Array) -> tuple[Array, Array, Array]:
    """Labels and keys of lines that have as many fields as they should; which are odd after all."""
    lengths = stops - starts
    fields = words(characters, stops, lengths)
    labels, is_odd = _labels(fields[:, 0], lengths[:, 0])
    is_odd |= (lengths > WIDTH).any(1)
    integers, lengths = fields[:, 1 : NUM_INTEGERS + 1], lengths[:, 1:]
    numbers, odd_numbers = _integers(integers, lengths)
    categories = fields[:, NUM_INTEGERS + 1 :]
    values = np.empty(lengths.shape, np.uint64)
    values[:, :NUM_INTEGERS] = features.buckets(numbers).astype(np.uint64)
    values[:, NUM_INTEGERS:] = hexadecimal(categories)
    values &= np.uint64(_LOW_BITS)
    is_odd |= odd_numbers.any(1)
    is_odd |= (not_hexadecimal(categories) != 0).any(1)
    return labels, features.keys(values, lengths == 0), is_odd


def _labels(fields: Array, lengths: Array) -> tuple[Array, Array]:
    is_one = np.isin(fields, _ONE_WORDS)
    is_known = (is_one | np.isin(fields, _ZERO_WORDS)) & (lengths > 0)
    return is_one.astype(np.float32), ~is_known


def _integers(fields: Array, lengths: Array) -> tuple[Array, Array]:
    """Numbers with their signs, and which are none."""
    marks = not_decimal(fields)
    line, column = np.nonzero(marks)
    if not len(line):
        return decimal(fields).astype(np.int64), marks != 0
    # A minus in front is the usual reason; seen as a zero it leaves the number's amount.
    shift = (WIDTH - np.minimum(lengths[line, column], WIDTH)).astype(np.uint64) * np.uint64(8)
    odd = fields[line, column]
    is_negative = ((odd >> shift) & np.uint64(0xFF) == _MINUS) & (lengths[line, column] > 1)
    odd ^= np.where(is_negative, np.uint64(ord("-") ^ ord("0")) << shift, np.uint64(0))
    fields = fields.copy()
    fields[line, column] = odd
    marks[line, column] = not_decimal(odd)
    numbers = decimal(fields).astype(np.int64)
    numbers[line, column] *= np.where(is_negative, -1, 1)
    return numbers, marks != 0
