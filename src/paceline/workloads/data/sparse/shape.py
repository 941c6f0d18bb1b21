"""Rows of the shape that Criteo's have, with a planted model that says which are positive.

What is published of Criteo's Kaggle set (45,840,617 rows) and kept here:

- how many values each of the 26 categorical columns has, 33,762,577 in all;
- their skew: values are drawn from a power law whose exponent leaves as many values with at least
  ten rows as were counted in each column. Where nearly all have ten, which only bounds it, the
  exponent is 2, which is also what the published shares of C1's commonest values give;
- how far the integers of each column reach, by the number of their log^2 buckets;
- how many fields of each column are empty, rounded;
- that 25.6 % of the rows are positive.

Every feature has a planted weight. It follows from the feature's number by hashing, so no table
of them is needed. In the five columns of over a million values weights are half as large: a sixth
of what stands there is seen fewer than five times in five million rows, and with even weights
nobody could come nearer to the planted model's AUC than 0.010 from so many.
Columns are drawn independently of each other, which Criteo's are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from paceline.workloads.data.sparse import features
from paceline.workloads.data.sparse.examples import Array
from paceline.workloads.data.sparse.features import NUM_CATEGORIES, NUM_COLUMNS, NUM_INTEGERS

POSITIVE_SHARE = 0.256
# fmt: off
CARDINALITIES = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)
EXPONENTS = (
    2.0, 2.0, 1.09, 1.15, 2.0, 2.0, 1.56, 2.0, 2.0, 1.35, 1.76, 1.09, 1.83,
    2.0, 1.59, 1.10, 2.0, 1.79, 1.92, 2.0, 1.09, 2.0, 2.0, 1.29, 2.0, 1.26,
)
NUM_BUCKETS = (49, 101, 126, 45, 223, 118, 84, 76, 95, 9, 30, 40, 75)
EMPTY_PERCENT = (
    45.4, 0.0, 21.5, 21.7, 2.6, 22.4, 4.3, 0.1, 4.3, 45.4, 4.3, 76.5, 21.7,
    0.0, 0.0, 3.4, 3.4, 0.0, 12.1, 0.0, 0.0, 0.0, 0.0, 0.0, 3.4, 0.0,
    0.0, 0.0, 3.4, 0.0, 0.0, 44.0, 44.0, 3.4, 76.3, 0.0, 3.4, 44.0, 44.0,
)
# fmt: on
_INTEGER_EXPONENT = 1.3
# The spread of a column's weights: it decides how well the planted model itself can tell.
_SPREAD = 0.26
_LARGE = 1_000_000
SPREADS = np.array(
    [_SPREAD] * NUM_INTEGERS
    + [_SPREAD / 2 if count > _LARGE else _SPREAD for count in CARDINALITIES]
)
_NUM_TRIED = 50_000


@final
@dataclass(frozen=True, eq=False)
class DrawnFields:
    """What stands in the columns of some rows."""

    integers: Array  # [n, 13] int64
    categories: Array  # [n, 26] uint32
    is_empty: Array  # [n, 39]

    def keys(self) -> Array:
        """The features' keys, as they would be read from text."""
        values = np.empty(self.is_empty.shape, np.uint64)
        values[:, :NUM_INTEGERS] = features.buckets(self.integers).astype(np.uint64)
        values[:, NUM_INTEGERS:] = self.categories
        values &= np.uint64(0xFFFFFFFF)
        return features.keys(values, self.is_empty)

    def text(self, labels: Array) -> bytes:
        """The rows as Criteo's text."""
        lines = []
        rows = zip(labels, self.integers, self.categories, self.is_empty, strict=True)
        for label, integers, categories, is_empty in rows:
            fields = [*map(str, integers.tolist()), *(f"{each:08x}" for each in categories)]
            shown = ("" if empty else field for field, empty in zip(fields, is_empty, strict=True))
            lines.append("\t".join((str(int(label)), *shown)))
        return "".join(f"{line}\n" for line in lines).encode()


def drawn(num_rows: int, generator: np.random.Generator) -> DrawnFields:
    """Draw what stands in so many rows."""
    ranks = np.empty((num_rows, NUM_CATEGORIES), np.uint32)
    for column, (count, exponent) in enumerate(zip(CARDINALITIES, EXPONENTS, strict=True)):
        ranks[:, column] = _power_law(generator.random(num_rows), count, exponent)
    integers = np.empty((num_rows, NUM_INTEGERS), np.int64)
    for column, num_buckets in enumerate(NUM_BUCKETS):
        largest = int(np.exp(np.sqrt(num_buckets - 4)))
        integers[:, column] = _power_law(generator.random(num_rows), largest, _INTEGER_EXPONENT)
    is_empty = generator.random((num_rows, NUM_COLUMNS)) < np.array(EMPTY_PERCENT) / 100
    return DrawnFields(integers - 1, _scattered(ranks), is_empty)


def numbers_of(fields: DrawnFields, num_features: int) -> Array:
    """The numbers that rows' features get by hashing."""
    return features.numbered(features.hashed(fields.keys()), num_features)


def _power_law(uniform: Array, count: int, exponent: float) -> Array:
    """Numbers from 1 to `count`, k as likely as the integral of x^-exponent from k to k + 1."""
    power = 1 - exponent
    reach = (count + 1.0) ** power - 1
    numbers: Array = np.minimum((1 + reach * uniform) ** (1 / power), count).astype(np.int64)
    return numbers


def _scattered(ranks: Array) -> Array:
    """Give each rank a 32-bit value that looks like no other, and does not tell the rank."""
    values = ranks * np.uint32(0x9E3779B1)
    values ^= values >> np.uint32(15)
    values *= np.uint32(0x85EBCA77)
    scattered: Array = values ^ (values >> np.uint32(13))
    return scattered


@final
class Planted:
    """A logistic model that labels rows, and knows how well it could be learnt at best."""

    def __init__(self, num_features: int, seed: int) -> None:
        self.num_features = num_features
        self.seed = seed
        self._bias = 0.0
        tried = drawn(_NUM_TRIED, np.random.default_rng([seed, 0]))
        self._bias = _bias_for(self.scores(self.numbers(tried)), POSITIVE_SHARE)

    def numbers(self, fields: DrawnFields) -> Array:
        """The numbers of the features of rows."""
        return numbers_of(fields, self.num_features)

    def scores(self, numbers: Array) -> Array:
        """The logit of each row."""
        scores: Array = self.weights(numbers).sum(1) + self._bias
        return scores

    def weights(self, numbers: Array) -> Array:
        """The weight of each feature of rows: of a nearly normal distribution."""
        mixed = features.mixed(numbers.astype(np.uint64) + np.uint64((self.seed + 1) << 40))
        parts = mixed.view(np.uint16).reshape(*numbers.shape, 4)
        centred = parts.sum(-1, dtype=np.float64) - 2 * 65_535
        # Four even numbers of 16 bits: their sum spreads by 65,536 / sqrt(3).
        weights: Array = centred * (SPREADS * (np.sqrt(3) / 65_536))
        return weights

    def labels(self, scores: Array, generator: np.random.Generator) -> Array:
        """Draw labels, 0 or 1, from the scores."""
        chances = 1 / (1 + np.exp(-scores))
        return (generator.random(len(scores)) < chances).astype(np.float32)


def _bias_for(scores: Array, share: float) -> float:
    """The bias with which so large a share of rows is positive in the mean."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        if (1 / (1 + np.exp(-scores - middle))).mean() < share:
            low = middle
        else:
            high = middle
    return low
