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
class JoinedBlocks(NamedTuple):
    """Blocks behind each other."""

    examples: Examples
    begins: Array
    """By a block's number: where its rows begin."""
    places: Array
    """Of each row among the good ones; -1 for a bad one."""
    bad: Mapping[int, str]
    numbers: frozenset[int]
    """Which blocks these are."""


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


def joined(blocks: Mapping[int, ParsedBlock]) -> JoinedBlocks:
    """Put blocks behind each other, so that rows of all are taken at once."""
    begins = np.zeros(max(blocks) + 1, np.int64)
    places, bad, num_rows, num_good = [], dict[int, str](), 0, 0
    for number, block in blocks.items():
        begins[number] = num_rows
        moved = block.places + num_good
        places.append(np.where(block.places < 0, -1, moved) if block.bad else moved)
        bad.update((num_rows + row, told) for row, told in block.bad.items())
        num_rows += len(block.places)
        num_good += len(block.examples)
    examples = concatenated([block.examples for block in blocks.values()])
    return JoinedBlocks(examples, begins, np.concatenate(places), bad, frozenset(blocks))


def gathered(blocks: JoinedBlocks, indexes: Array, within: Array) -> Gathered:
    """Gather rows: of each, the number of its block and its own number in that."""
    rows = blocks.begins.take(indexes) + within
    places = blocks.places.take(rows)
    if not blocks.bad:
        return Gathered(blocks.examples.take(places), np.arange(len(rows) + 1), {})
    is_good = places >= 0
    bad = {row: blocks.bad[int(rows[row])] for row in np.flatnonzero(~is_good).tolist()}
    return Gathered(blocks.examples.take(places[is_good]), starts_of(is_good), bad)
