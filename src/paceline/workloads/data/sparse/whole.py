"""Blocks of rows that are parsed whole, and rows gathered of them.

For the worker that takes every row of a block: to parse a block's rows where they stand is quicker
than to pick rows first and parse those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import numpy as np

from paceline.workloads.data.sparse.examples import Array, Examples, concatenated, starts_of
from paceline.workloads.data.sparse.reading import Parse


@final
class ParsedBlock(NamedTuple):
    """A block's good rows, and what is wrong with the others, by their number in it."""

    examples: Examples
    places: Array
    """Of each row among the good ones; -1 for a bad one."""
    bad: Mapping[int, str]


@final
class Gathered(NamedTuple):
    """Rows of several blocks: the good ones in order, and what is wrong with the others."""

    examples: Examples
    num_good: Array
    """How many good ones there are before each of the rows, and in all."""
    bad: Mapping[int, str]


def parsed_block(parse: Parse, rows: Sequence[bytes]) -> ParsedBlock:
    """Parse all rows of a block."""
    found = parse(rows)
    places = np.arange(len(rows))
    if found.bad:
        is_good = np.ones(len(rows), bool)
        is_good[[*found.bad]] = False
        places = np.where(is_good, np.cumsum(is_good) - 1, -1)
    return ParsedBlock(found.examples, places, found.bad)


def gathered(blocks: Mapping[int, ParsedBlock], indexes: Array, within: Array) -> Gathered:
    """Gather rows: of each, the number of its block and its own number in that."""
    order = np.argsort(indexes, kind="stable")
    parts, places = [], []
    bad: dict[int, str] = {}
    for index, rows in _by_block(indexes[order], order):
        block = blocks[index]
        found = block.places[within[rows]]
        if block.bad:
            is_bad = found < 0
            bad.update((int(row), block.bad[int(within[row])]) for row in rows[is_bad])
            places.append(rows[~is_bad])
            found = found[~is_bad]
        else:
            places.append(rows)
        parts.append(block.examples.take(found))
    to = np.concatenate(places)
    is_good = np.zeros(len(indexes), np.int64)
    is_good[to] = 1
    return Gathered(concatenated(parts).take(np.argsort(to)), starts_of(is_good), bad)


def _by_block(indexes: Array, order: Array) -> list[tuple[int, Array]]:
    """Each block's number, and which rows are of it; `indexes` are sorted by `order`."""
    firsts = np.flatnonzero(np.diff(indexes, prepend=-1))
    return list(zip(indexes[firsts].tolist(), np.split(order, firsts[1:]), strict=True))
