"""How all commands print tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.cli.layout import Head, TextGrid

if TYPE_CHECKING:
    from paceline.exhibits.values import Table as Exhibit


def number(text: str, rank: int = 0) -> Head:
    """Head a column of numbers."""
    return Head(text, is_number=True, rank=rank)


def words(text: str, rank: int = 0) -> Head:
    """Head a column of texts, which may be broken between words."""
    return Head(text, wraps=True, rank=rank)


def plain_table(*heads: str | Head) -> TextGrid:
    """Make a table to compare rows in; a heading that ends in `>` is of numbers.

    Columns that find no room stand below, with the first column again.
    """
    return TextGrid([Head.of(each) if isinstance(each, str) else each for each in heads])


def listing(*heads: Head) -> TextGrid:
    """Make a list, which may be long: what finds no room stands below its own row."""
    return TextGrid(heads, in_lines=True)


def pairs() -> TextGrid:
    """Make a table of names and texts, both read as rich's markup, without headings."""
    return TextGrid([Head(""), words("")], markup=True)


def exhibit_table(exhibit: Exhibit) -> TextGrid:
    """Show a table of a report; its columns are in the order of their weight."""
    table = TextGrid(
        [
            Head(each.header, is_number=each.is_number, wraps=not each.is_number and at > 0)
            for at, each in enumerate(exhibit.columns)
        ]
    )
    for cells in exhibit.cells():
        table.add_row(*cells)
    return table
