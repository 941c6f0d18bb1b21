"""libsvm's text: a label, then `index:value` for each feature that is not zero, indices from 1 on.

Whole blocks of lines are read at once. A line that is unusual in any way is left to `parse_line`,
which is slow, and the word on what is right.
"""

from __future__ import annotations

import contextlib
import re

import numpy as np

from paceline.workloads.data.sparse.examples import (
    Array,
    Examples,
    Parsed,
    concatenated,
    places_of,
    starts_of,
)
from paceline.workloads.data.sparse.words import (
    WIDTH,
    decimal,
    not_decimal,
    padded,
    word_of,
    words,
)

MOST_FEATURES = 2**32 - 1
_LABELS = {0.0: 0.0, 1.0: 1.0, -1.0: 0.0}
_ZERO_WORDS = np.array([word_of(text) for text in (b"0", b"-1", b"0.0", b"-1.0")])
_ONE_WORDS = np.array([word_of(text) for text in (b"1", b"+1", b"1.0", b"+1.0")])
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COMMENT = re.compile(rb"#[^\n]*")
_SPACES = re.compile(rb"[ \t\r]+")


def parse(text: bytes, num_features: int | None = None) -> Parsed:
    """Read lines, each of which ends in a newline; features come out numbered from 0 on."""
    text = _tidy(text)
    most = MOST_FEATURES if num_features is None else num_features
    is_usual, examples = _usual(padded(text), most)
    if is_usual.all():
        return Parsed(examples.as_matrix(), {})
    lines = text.split(b"\n")
    bad: dict[int, str] = {}
    others: dict[int, Examples] = {}
    for number in np.flatnonzero(~is_usual).tolist():
        try:
            others[number] = parse_line(lines[number], most)
        except ValueError as error:
            bad[number] = str(error)
    if others:
        numbers = np.concatenate([np.flatnonzero(is_usual), list(others)])
        examples = concatenated([examples, *others.values()]).take(np.argsort(numbers))
    return Parsed(examples.as_matrix(), bad)


def parse_line(line: bytes, most: int) -> Examples:
    """Read one line, without its newline. ValueError says what is wrong with it."""
    label, *pairs = line.decode("utf-8", "backslashreplace").split() or [""]
    if not label:
        raise ValueError("an empty line")
    if not _NUMBER.fullmatch(label) or float(label) not in _LABELS:
        raise ValueError(f"label {_shown(label)} is neither 0 nor 1 (nor -1 nor +1)")
    indices, values, before = [], [], 0
    for pair in pairs:
        index, value = _pair(pair, most)
        if index <= before:
            raise ValueError(f"index {index} comes after index {before}: they must ascend")
        indices.append(index - 1)
        values.append(value)
        before = index
    return Examples(
        np.array([_LABELS[float(label)]], np.float32),
        np.array(indices, np.uint32),
        np.array([0, len(indices)]),
        np.array(values, np.float32),
    )


def _pair(pair: str, most: int) -> tuple[int, float]:
    index, colon, value = pair.partition(":")
    if not colon or not index.isdecimal() or not _NUMBER.fullmatch(value):
        raise ValueError(f"{_shown(pair)} is not of the form index:value")
    if int(index) == 0:
        raise ValueError("index 0: indices begin at 1")
    if int(index) > most:
        raise ValueError(f"index {index} is above num_features = {most:,}")
    return int(index), float(value)


def _shown(text: str) -> str:
    return repr(text[:24] + "…" if len(text) > 24 else text)


def _tidy(text: bytes) -> bytes:
    """Take away comments, and spaces beyond one between two fields."""
    if b"#" in text:
        text = _COMMENT.sub(b"", text)
    if b"  " in text or b"\t" in text or b"\r" in text:
        text = _SPACES.sub(b" ", text)
    return text.replace(b" \n", b"\n").replace(b"\n ", b"\n")


def _usual(characters: Array, most: int) -> tuple[Array, Examples]:
    """Say which lines are usual, and read those."""
    stops = np.flatnonzero(
        (characters == ord(" ")) | (characters == ord(":")) | (characters == ord("\n"))
    )
    starts = np.concatenate([[WIDTH], stops[:-1] + 1])
    ends = characters[stops]
    lines = _Lines(np.flatnonzero(ends == ord("\n")))
    is_index = ends == ord(":")
    # A label, then index and value in turn.
    is_odd = is_index != (lines.within % 2 == 1)
    lengths = stops - starts
    is_odd |= (lengths == 0) | (is_index & (lengths > WIDTH))
    fields = words(characters, stops, lengths)
    is_odd[lines.firsts] |= ~np.isin(fields[lines.firsts], [*_ZERO_WORDS, *_ONE_WORDS])
    is_odd |= is_index & (not_decimal(fields) != 0)
    indices = np.where(is_index, decimal(fields), 0).astype(np.int64)
    is_odd |= is_index & ((indices == 0) | (indices > most))
    is_odd[1:-1] |= is_index[2:] & (indices[2:] <= indices[:-2]) & (lines.within[2:] > 1)
    is_usual = ~lines.any(is_odd)
    is_ours = np.repeat(is_usual, lines.counts)
    is_value = is_ours & ~is_index
    is_value[lines.firsts] = False
    values, is_number = _values(characters, fields, starts, lengths, np.flatnonzero(is_value))
    if not is_number.all():
        is_odd[np.flatnonzero(is_value)[~is_number]] = True
        is_usual = ~lines.any(is_odd)
        values = values[np.repeat(is_usual, lines.counts)[is_value]]
        is_ours = np.repeat(is_usual, lines.counts)
    labels = np.isin(fields[lines.firsts], _ONE_WORDS).astype(np.float32)[is_usual]
    features = (indices[is_index & is_ours] - 1).astype(np.uint32)
    return is_usual, Examples(labels, features, starts_of(lines.counts[is_usual] // 2), values)


class _Lines:
    """Which fields belong to which line."""

    def __init__(self, lasts: Array) -> None:
        self.counts = np.diff(lasts, prepend=-1)
        self.firsts = lasts - self.counts + 1
        self.within = np.arange(self.counts.sum()) - np.repeat(self.firsts, self.counts)

    def any(self, marks: Array) -> Array:
        """Whether any field of each line is marked."""
        return np.add.reduceat(marks, self.firsts) > 0


def _values(
    characters: Array, fields: Array, starts: Array, lengths: Array, at: Array
) -> tuple[Array, Array]:
    """The values among the fields, and which of them are numbers."""
    marks = not_decimal(fields[at])
    values = decimal(fields[at]).astype(np.float32)
    others = np.flatnonzero((marks != 0) | (lengths[at] > WIDTH))
    is_number = np.ones(len(at), bool)
    if len(others):
        places = at[others]
        text = characters[places_of(starts[places], lengths[places] + 1)].tobytes()
        values[others], is_number[others] = _floats(text)
    return values, is_number


def _floats(text: bytes) -> tuple[Array, Array]:
    """Numbers with spaces between them, in any notation; which of them are finite ones."""
    fields = text.split()
    with contextlib.suppress(ValueError):
        if b"_" not in text:  # which Python lets pass
            values = np.array(fields).astype(np.float64)
            return values.astype(np.float32), np.isfinite(values)
    # One is no number at all: none is taken on trust.
    return np.zeros(len(fields), np.float32), np.zeros(len(fields), bool)
