"""A table that fits its terminal: nothing is cut, what does not fit beside the rest is stacked.

Headings fold first, then texts wrap at words. Columns that still find no room go below: into
further blocks, each with the first column again, or into lines below their row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from rich.console import Console, ConsoleOptions
from rich.text import Text

_GAP: Final = 2
_INDENT: Final = 4
# A text that wraps needs about three words in a line to be read.
_LEAST_WORDS: Final = 24
# More lines of one heading are no longer read as one.
_MOST_HEADING_LINES: Final = 3


@final
@dataclass(frozen=True)
class Head:
    """A column: its heading, how its cells are set, and how long it keeps its place."""

    text: str
    is_number: bool = False
    wraps: bool = False
    """Whether its cells are texts, which may be broken between words."""
    rank: int = 0
    """The higher, the sooner it is stacked; among equals the one further to the right."""

    @classmethod
    def of(cls, text: str) -> Head:
        """Read a heading; one that ends in `>` is of numbers."""
        return cls(text.removesuffix(">"), is_number=text.endswith(">"))


@final
class TextGrid:
    """Rows below headings, laid out when the width of the terminal is known."""

    def __init__(
        self, heads: Sequence[Head], *, in_lines: bool = False, markup: bool = False
    ) -> None:
        """Take the columns.

        `in_lines` stacks below each row, for lists that may be long. With `markup`, cells are
        read as rich's.
        """
        self._heads = tuple(heads)
        self._in_lines = in_lines
        self._read = Text.from_markup if markup else Text
        self._rows: list[tuple[list[Text], str]] = []

    def add_row(self, *cells: str | Text, note: str = "") -> None:
        """Add a row, and a note that stands below it."""
        texts = [each if isinstance(each, Text) else self._read(each) for each in cells]
        texts += [Text()] * (len(self._heads) - len(texts))
        self._rows.append((texts, note))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Lay it out, as rich asks of what it prints."""
        room = options.max_width
        least = [self._least(column) for column in range(len(self._heads))]
        divide = _divided if self._in_lines else _divided_evenly
        first, *others = divide([head.rank for head in self._heads], least, room)
        if self._in_lines:
            below = sorted(index for block in others for index in block[1:])
            yield from self._drawn(first, room, console, below)
            return
        for block in (first, *others):
            yield from self._drawn(block, room, console, ())

    def _least(self, column: int) -> int:
        """How narrow a column can be: a heading folds, a text wraps, nothing else does."""
        head = self._heads[column]
        widths = [cells[column].cell_len for cells, _ in self._rows]
        if head.wraps:
            words = (word for cells, _ in self._rows for word in cells[column].plain.split())
            widths = [min(max(widths, default=0), _LEAST_WORDS), *map(len, words)]
        return max(0, _folded(head.text), *widths)

    def _whole(self, column: int) -> int:
        cells = (cells[column].cell_len for cells, _ in self._rows)
        return max(len(self._heads[column].text), *cells, 0)

    def _widths(self, block: Sequence[int], room: int) -> list[int]:
        """Give every column what it must have, then what is left, to texts before headings."""
        widths = {column: self._least(column) for column in block}
        spare = room - _total(widths.values())
        for column in sorted(block, key=lambda each: not self._heads[each].wraps):
            more = min(max(0, spare), self._whole(column) - widths[column])
            widths[column] += more
            spare -= more
        if spare < 0:  # even one column beside the first is too wide: both fold
            widths[block[0]] = min(widths[block[0]], room // 2)
            widths[block[-1]] = max(1, room - _total([widths[block[0]], 0]))
        return [widths[column] for column in block]

    def _drawn(
        self, block: Sequence[int], room: int, console: Console, below: Sequence[int]
    ) -> Iterator[Text]:
        heads = [self._heads[column] for column in block]
        widths = self._widths(block, room)
        numbers = [head.is_number for head in heads]
        titles = [Text(head.text, style="dim") for head in heads]
        if any(head.text for head in self._heads):
            yield from _beside(titles, widths, numbers, console, at_the_end=True)
        for cells, note in self._rows:
            yield from _beside([cells[column] for column in block], widths, numbers, console)
            stacked = [self._named(column, cells[column]) for column in below if cells[column]]
            notes = [Text(note)] if note else []
            for line in (*packed(stacked, " · ", room - _INDENT), *notes):
                for part in line.wrap(console, room - _INDENT, overflow="fold"):
                    part.rstrip()
                    yield Text(" " * _INDENT).append_text(part)

    def _named(self, column: int, cell: Text) -> Text:
        """Put the heading before a cell that does not say it itself, as `real compute` does."""
        if self._heads[column].text in cell.plain:
            return cell
        return Text(f"{self._heads[column].text} ", style="dim").append_text(cell)


def _divided(ranks: Sequence[int], least: Sequence[int], room: int) -> list[list[int]]:
    """Share the columns out into blocks; the first, which names the row, is in every block."""
    left = sorted(range(1, len(ranks)), key=lambda each: (ranks[each], each))
    blocks: list[list[int]] = []
    while left or not blocks:
        block = [0, *left[:1]]
        for column in left[1:]:
            if _total(least[each] for each in (*block, column)) > room:
                break
            block.append(column)
        left = left[len(block) - 1 :]
        blocks.append(sorted(block))
    return blocks


def _divided_evenly(ranks: Sequence[int], least: Sequence[int], room: int) -> list[list[int]]:
    """Share them out so that no block has most of them, and the last only one."""
    blocks = _divided(ranks, least, room)
    if len(blocks) == 1:  # in a pipe, whose lines are very long, too
        return blocks
    for narrower in range(room - 1, 0, -1):
        others = _divided(ranks, least, narrower)
        if len(others) > len(blocks):
            break
        blocks = others
    return blocks


def _total(widths: Iterable[int]) -> int:
    known = list(widths)
    return sum(known) + _GAP * (len(known) - 1)


def _folded(heading: str) -> int:
    """How narrow a heading can be in a few lines."""
    words = heading.split()
    longest = max(map(len, words), default=0)
    return max(longest, -(-len(heading) // _MOST_HEADING_LINES))


def _beside(
    cells: Sequence[Text],
    widths: Sequence[int],
    numbers: Sequence[bool],
    console: Console,
    *,
    at_the_end: bool = False,
) -> Iterator[Text]:
    """Set cells beside each other, each in its lines; those of headings stand at the bottom."""
    wrapped = [
        cell.wrap(console, width, overflow="fold")
        for cell, width in zip(cells, widths, strict=True)
    ]
    height = max(map(len, wrapped))
    for number in range(height):
        line = Text()
        for lines, width, is_number in zip(wrapped, widths, numbers, strict=True):
            at = number - (height - len(lines) if at_the_end else 0)
            part = lines[at].copy() if 0 <= at < len(lines) else Text()
            part.rstrip()
            part.align("right" if is_number else "left", width)
            line.append_text(part).append(" " * _GAP)
        line.rstrip()
        yield line


def packed(items: Sequence[Text], between: str, room: int) -> Iterator[Text]:
    """Put as many into a line as there is room for, and never break one that fits into a line."""
    line = Text()
    for item in items:
        if line and line.cell_len + len(between) + item.cell_len > room:
            yield line
            line = Text()
        line.append_text(Text(between) + item if line else item)
    if line:
        yield line
