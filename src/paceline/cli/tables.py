"""Tables as all commands print them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from paceline.exhibits import Table as Exhibit

# In a pipe nothing needs to be cut to a screen's width.
PIPED_WIDTH = 240


def wide_console(*, stderr: bool = False) -> Console:
    """Make a console that never cuts a cell when its output is not a terminal."""
    console = Console(stderr=stderr, highlight=False)
    return (
        console
        if console.is_terminal
        else Console(stderr=stderr, highlight=False, width=PIPED_WIDTH)
    )


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


def plain_table(*headers: str) -> Table:
    """Make a table without lines; a header that ends in `>` heads a column of numbers."""
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for header in headers:
        is_number = header.endswith(">")
        table.add_column(
            header.removesuffix(">"), justify="right" if is_number else "left", no_wrap=True
        )
    return table


def exhibit_table(exhibit: Exhibit) -> Table:
    """Show a table of a report; a terminal too narrow for it folds headers and words."""
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for column in exhibit.columns:
        table.add_column(escape(column.header), justify="right" if column.is_number else "left")
    for cells in exhibit.cells():
        table.add_row(*map(escape, cells))
    return table
