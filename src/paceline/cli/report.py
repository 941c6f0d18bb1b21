"""`paceline report`: runs that are kept, as one page and as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.errors import StoreError
from paceline.untrusted import visible

if TYPE_CHECKING:
    from paceline.stored import StoredRun

Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN|DIR|STUDY...",
        help="Runs by folder, by part of a name or as `last`; a folder: all runs in it; or a "
        "study, by its name or folder.",
        show_default=False,
    ),
]
Out = Annotated[Path, typer.Option("--out", help="The folder of all runs.")]
REPORTS = Path("reports")


def report(
    runs: Runs,
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
    from paceline.cli.study import report_again
    from paceline.pictures import Drawer
    from paceline.studies.finding import find

    if len(runs) == 1 and (folder := find(runs[0], out)) is not None:
        report_again(folder, to, title, run_code=run_code)
        return
    with Drawer() as drawer:  # gets ready while the runs are read
        from paceline.report import page_of, write

        stored = found(runs, out)
        page = page_of(stored, title=title)
        path = write(page, to or REPORTS / _name(runs, stored), drawer)
    for sentence in page.conclusion:
        typer.echo(sentence)
    typer.echo(f"\nreport: {path}")


def found(wanted: list[str], out: Path) -> list[StoredRun]:
    """Read the runs asked for; those that cannot be read are told, and left out."""
    from paceline.stored import runs_of
    from paceline.studies.finding import with_runs_of_studies

    stored, problems = runs_of(with_runs_of_studies(wanted, out), out)
    for problem in problems:
        typer.echo(visible(f"left out: {problem}"), err=True)
    if not stored:
        raise StoreError("none of the runs can be read")
    return stored


def _name(wanted: list[str], stored: list[StoredRun]) -> str:
    if len(stored) == 1:
        return stored[0].name
    if len(wanted) == 1:
        return Path(wanted[0]).resolve().name
    return f"{stored[0].name}-and-{len(stored) - 1}-more"
