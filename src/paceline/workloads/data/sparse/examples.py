"""Labelled rows of sparse features, many at a time, as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class Examples:
    """Rows: a label each, 0 or 1, and the features that are not zero.

    Where every row has as many features, each worth one, `features` is a matrix, a line a row.
    Else it is a vector, `starts` says where each row begins in it and where the last one ends,
    and `values` what each feature is worth.
    """

    labels: Array  # [n] float32
    features: Array  # [n, width], or [number of features of all rows]
    starts: Array | None = None  # [n + 1] int64
    values: Array | None = None  # as many as features, float32

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Array) -> Examples:
        """Give the rows whose numbers are given, in that order."""
        labels = self.labels[rows]
        if self.starts is None or self.values is None:
            features = self.features
            # Of rows without gaps `take` brings one in 11 ns, an index in 60; of others, all are
            # copied by `take` first.
            is_dense = features.flags.c_contiguous
            return Examples(labels, features.take(rows, 0) if is_dense else features[rows])
        begins = self.starts[rows]
        lengths = self.starts[rows + 1] - begins
        starts = starts_of(lengths)
        places = places_of(begins, lengths)
        return Examples(labels, self.features[places], starts, self.values[places])

    def part(self, rows: range) -> Examples:
        """Give neighbouring rows, to take from; nothing is copied."""
        labels = self.labels[rows.start : rows.stop]
        if self.starts is None:
            return Examples(labels, self.features[rows.start : rows.stop])
        starts = self.starts[rows.start : rows.stop + 1]
        return Examples(labels, self.features, starts, self.values)

    def as_vector(self) -> Examples:
        """The same rows with features of all in one vector."""
        if self.starts is not None:
            return self
        num_rows, width = self.features.shape
        values = np.ones(num_rows * width, np.float32)
        starts = np.arange(num_rows + 1) * width
        return Examples(self.labels, self.features.reshape(-1), starts, values)

    def as_matrix(self) -> Examples:
        """The same rows with features as a matrix, where they can be; else as they are."""
        if self.starts is None or self.values is None:
            return self
        lengths = np.diff(self.starts)
        if not len(lengths) or (lengths != lengths[0]).any() or (self.values != 1).any():
            return self
        return Examples(self.labels, self.features.reshape(len(self), -1))


class Parsed(NamedTuple):
    """The good ones among some rows, and what is wrong with the others, by their number."""

    examples: Examples
    bad: Mapping[int, str]


def concatenated(parts: Sequence[Examples]) -> Examples:
    """Put rows behind each other."""
    widths = {part.features.shape[1] if part.starts is None else None for part in parts}
    if len(widths) == 1 and None not in widths:
        labels, matrix = zip(*((part.labels, part.features) for part in parts), strict=True)
        return Examples(np.concatenate(labels), np.concatenate(matrix))
    vectors = [part.as_vector() for part in parts]
    lengths = np.concatenate([np.diff(_given(part.starts)) for part in vectors])
    return Examples(
        np.concatenate([part.labels for part in vectors]),
        np.concatenate([part.features for part in vectors]),
        starts_of(lengths),
        np.concatenate([_given(part.values) for part in vectors]),
    )


def starts_of(lengths: Array) -> Array:
    """Where stretches of these lengths begin, one behind the other, and where the last ends."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def places_of(begins: Array, lengths: Array) -> Array:
    """The numbers of everything in stretches that begin here and there, one after the other."""
    starts = starts_of(lengths)
    places: Array = np.arange(starts[-1]) + np.repeat(begins - starts[:-1], lengths)
    return places


def _given(array: Array | None) -> Array:
    assert array is not None
    return array
