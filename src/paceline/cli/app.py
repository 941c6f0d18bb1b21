"""The `paceline` command and its sub-commands."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from paceline.cli.lazy import CommandEntry, group_of
from paceline.cli.pipes import outlive_readers
from paceline.errors import PacelineError


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"paceline {metadata.version('paceline')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Take the options that go before a command."""


COMMANDS: Final = (
    CommandEntry(
        "run", "Train a WORKLOAD once, measured, and keep the run.", "run", passes_on=True
    ),
    CommandEntry(
        "compare",
        "Train a WORKLOAD under several strategies and say which is best, and why.",
        "compare",
        passes_on=True,
    ),
    CommandEntry(
        "resume", "Go on with a RUN that did not finish, from its newest checkpoint.", "resume"
    ),
    CommandEntry(
        "ls", "List the runs, oldest first. Seals those whose driver was killed.", "stored"
    ),
    CommandEntry(
        "show",
        "Show one run: its outcome, where the time went, what each node used, its spec.",
        "stored",
    ),
    CommandEntry(
        "explain",
        "Say what limited a run: each worker's step in parts, utilisation, what to try next.",
        "explain",
    ),
    CommandEntry(
        "report",
        "Write a report on runs: one page to open, and every figure and table as files.",
        "report",
    ),
    CommandEntry("export", "Write what runs recorded as files that other programs read.", "export"),
    CommandEntry(
        "study", "Carry out a study: its runs, tables, figures and claims, on one page.", "study"
    ),
    CommandEntry(
        "workloads",
        "List the workloads: size, multiply-adds per row, data, whether it is here, how to get it.",
        "workloads",
    ),
    CommandEntry(
        "plan",
        "Predict every strategy on every number of machines, and recommend one.",
        "plan",
        passes_on=True,
    ),
    CommandEntry(
        "calibrate",
        "Measure forward and backward time layer by layer, and write a file for replay.",
        "calibrate",
    ),
    CommandEntry(
        "monitor",
        "Run a COMMAND and log what it and all its descendants use.",
        "monitor",
        # What follows the command's name is the command's own, options too.
        {"allow_interspersed_args": False},
    ),
    CommandEntry(
        "join",
        "Be a node of somebody's run, and serve its driver until it is over.",
        "join",
    ),
    CommandEntry(
        "doctor",
        "Examine this machine: what works, what does not, and what to do about it.",
        "doctor",
    ),
    CommandEntry(
        "data",
        "Data sets: list them, get one into the cache folder, verify it; convert files.",
        "data_commands",
    ),
)

app = typer.Typer(
    name="paceline",
    cls=group_of(COMMANDS),
    help="How should this model be trained across these machines? Train it, measured, and see.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.callback()(_options)


def main() -> None:
    """Run the command line; an error a user can mend is a message, not a traceback."""
    outlive_readers()
    try:
        app()
    except PacelineError as error:
        from paceline.cli.complaints import complain

        complain(error)
        sys.exit(error.exit_code)
