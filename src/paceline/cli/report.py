"""`paceline report`: runs that are kept, as one page and as files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from paceline.reading.untrusted import visible

RunsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN|DIR|STUDY...",
        help="Runs by folder, by part of a name or as `last`; a folder: all runs in it; or a "
        "study, by its name or folder.",
        show_default=False,
    ),
]
Out = Annotated[Path, typer.Option("--out", help="The folder of all runs.")]


def report(
    runs: RunsArgument,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where to write; default: reports/, by the name of the run or folder.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
    run_code: Annotated[
        bool,
        typer.Option(
            "--run-code",
            help="For a study with user-defined classes: import them, which runs their code.",
        ),
    ] = False,
    out: Out = Path("runs"),
) -> None:
    """Write a report on runs: one page to open, and every figure and table as files.

    The page needs no network. Beside it are figures as PNG, SVG, PDF and CSV, and tables as CSV,
    Markdown and LaTeX. Runs of one spec are repetitions: medians and spread are shown. A study gets
    its own page, from what of it is finished.
    """
    from paceline.api.written import report as write

    written = write(runs, to=to, title=title, out=out, run_code=run_code)
    tell_left_out(written.left_out)
    if written.page.claims:
        from paceline.cli.study import print_claims

        print_claims(written.page.claims)
    for sentence in written.conclusion:
        typer.echo(sentence)
    typer.echo(f"\nreport: {written.path}")


def tell_left_out(problems: Iterable[str]) -> None:
    """Say which of the runs asked for cannot be read."""
    for problem in problems:
        typer.echo(visible(f"left out: {problem}"), err=True)
