"""An error as a person reads it: what is wrong, what to do, and where in their code it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paceline.errors import PacelineError, SeatFailed, SpecError
from paceline.reading.untrusted import visible

if TYPE_CHECKING:
    from rich.console import Console

_INVALID: Final = "Invalid settings; nothing was started:"


def complain(error: PacelineError) -> None:
    """Print an error to standard error; lines end at words where there is a terminal."""
    from paceline.display.consoles import wide_console

    console = wide_console(stderr=True)
    is_invalid = isinstance(error, SpecError)
    console.print(_INVALID if is_invalid else visible(f"{error}"), style="red", markup=False)
    if isinstance(error, SpecError):
        for problem in error.problems:
            _print_hanging(console, visible(str(problem)))
        for told in dict.fromkeys(each.traceback for each in error.problems if each.traceback):
            console.print(f"\n{visible(_indented(told))}", markup=False, soft_wrap=True)
    if isinstance(error, SeatFailed) and error.log_tail:
        told = f"\nThe end of {error.seat}'s log:\n{visible(_indented(error.log_tail))}"
        console.print(told, markup=False, soft_wrap=True)


def _print_hanging(console: Console, text: str) -> None:
    """Print a paragraph whose first line stands out."""
    from rich.text import Text

    for number, line in enumerate(Text(text).wrap(console, console.width - 4, overflow="fold")):
        line.rstrip()
        console.print(Text("    " if number else "  ").append_text(line))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
