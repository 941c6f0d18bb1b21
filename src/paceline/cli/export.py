"""`paceline export`: a run in the form that another program reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from paceline.cli.stored import Out, result_of
from paceline.errors import Problem, SpecError, StoreError

if TYPE_CHECKING:
    from paceline.results import Result
    from paceline.runs import RunDir

Write = Callable[["RunDir", "Result", Path], None]


def _chrome_trace(run: RunDir, result: Result, target: Path) -> None:
    from paceline.measure.chrome_trace import write_chrome_trace

    write_chrome_trace(run, result, target)


# What there is, and what a file is called unless its name is given.
_FORMATS: Final[dict[str, tuple[Write, str]]] = {"chrome-trace": (_chrome_trace, "trace.json")}


def export(
    run: Annotated[str, typer.Argument(help="A run's folder, part of its name, or `last`.")],
    format_: Annotated[
        str, typer.Option("--format", help=f"What to write: {', '.join(_FORMATS)}.")
    ],
    to: Annotated[
        Path | None,
        typer.Option(help="The file to write; default: named after the run, in this folder."),
    ] = None,
    out: Out = Path("runs"),
) -> None:
    """Write a run in the form that another program reads."""
    from paceline.runs import find_run

    if format_ not in _FORMATS:
        choices = tuple(_FORMATS)
        raise SpecError([Problem("--format", format_, "no such format", choices)])
    found = find_run(run, out)
    result = result_of(found)
    if result is None or isinstance(result, str):
        raise StoreError(f"{found.path}: {result or 'still running; wait until it is over'}")
    write, ending = _FORMATS[format_]
    target = to or Path(f"{found.name}.{ending}")
    try:
        write(found, result, target)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}") from error
    typer.echo(f"{target} ({target.stat().st_size / 1e6:.1f} MB)")
