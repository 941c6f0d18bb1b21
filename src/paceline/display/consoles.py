"""Where something is shown, and how names and rates are written there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console

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


def text_of_left(left_s: float | None, *, at_least: bool = False) -> str:
    """Write how long something still takes, as the end of a line; nothing where it is unknown."""
    if left_s is None:
        return ""
    minutes, seconds = divmod(round(left_s), 60)
    text = f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
    return f" · {'at least ' if at_least else ''}{text} left"
