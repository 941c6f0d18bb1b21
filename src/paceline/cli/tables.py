"""How all commands print: consoles, tables, and numbers as text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from paceline.cli.layout import Grid, Head
from paceline.errors import StoreError

if TYPE_CHECKING:
    from paceline.exhibits import Table as Exhibit

# In a pipe a row of a table and a sentence stay one line each, for `grep` and `cut`.
PIPED_WIDTH: Final = 10_000


def wide_console(*, stderr: bool = False) -> Console:
    """Make a console as wide as the terminal; one that breaks no line where there is none."""
    console = Console(stderr=stderr, highlight=False)
    return (
        console
        if console.is_terminal
        else Console(stderr=stderr, highlight=False, width=PIPED_WIDTH)
    )


@contextmanager
def making_sense(what: object) -> Iterator[None]:
    """Say so where the figures of a stored run do not go together, as in one that was changed."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise StoreError(f"{what}: its figures do not go together: {error!r}") from error


def short(name: str) -> str:
    """Name a user's own part without the folders it is in."""
    return Path(name).name


def with_origin(workload: str, data: str | None) -> str:
    """Name a workload; that its rows are generated is said wherever its name stands."""
    generated = "generated rows"
    return f"{workload} ({generated})" if (data or "").startswith(generated) else workload


def rate(per_s: float) -> str:
    """Write a rate: whole where it is large, two digits where it is small."""
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.2g}"


def number(text: str, rank: int = 0) -> Head:
    """Head a column of numbers."""
    return Head(text, is_number=True, rank=rank)


def words(text: str, rank: int = 0) -> Head:
    """Head a column of texts, which may be broken between words."""
    return Head(text, wraps=True, rank=rank)


def plain_table(*heads: str | Head) -> Grid:
    """Make a table to compare rows in; a heading that ends in `>` is of numbers.

    Columns that find no room stand below, with the first column again.
    """
    return Grid([Head.of(each) if isinstance(each, str) else each for each in heads])


def listing(*heads: Head) -> Grid:
    """Make a list, which may be long: what finds no room stands below its own row."""
    return Grid(heads, in_lines=True)


def pairs() -> Grid:
    """Make a table of names and texts, both read as rich's markup, without headings."""
    return Grid([Head(""), words("")], markup=True)


def exhibit_table(exhibit: Exhibit) -> Grid:
    """Show a table of a report; its columns are in the order of their weight."""
    table = Grid(
        [
            Head(each.header, is_number=each.is_number, wraps=not each.is_number and at > 0)
            for at, each in enumerate(exhibit.columns)
        ]
    )
    for cells in exhibit.cells():
        table.add_row(*cells)
    return table
