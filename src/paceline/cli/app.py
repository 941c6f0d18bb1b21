"""The `paceline` command and its sub-commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paceline.cli import (
    calibrate,
    compare,
    convert,
    data,
    doctor,
    explain,
    export,
    monitor,
    report,
    run,
    stored,
    study,
    workloads,
)
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
        typer.Option(
            "--version", help="Say which version this is.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options that go before a command."""


app = typer.Typer(
    name="paceline",
    help="How should this model be trained across these machines? Train it, measured, and see.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.callback()(_options)
app.command("run", help=run.HELP)(run.run)
app.command("compare", help=compare.HELP)(compare.compare)
app.command("ls")(stored.ls)
app.command("show")(stored.show)
app.command("explain")(explain.explain)
app.command("report")(report.report)
app.command("export")(export.export)
app.command("study", help=study.HELP)(study.study)
app.command("workloads")(workloads.workloads)
app.command("calibrate")(calibrate.calibrate)
data.app.command("convert")(convert.convert)
app.add_typer(data.app, name="data")
# What follows the command's name is the command's own, options too.
app.command("monitor", help=monitor.HELP, context_settings={"allow_interspersed_args": False})(
    monitor.monitor
)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run the command line; an error a user can mend is a message, not a traceback."""
    outlive_readers()
    try:
        app()
    except PacelineError as error:
        from paceline.cli.complaints import complain

        complain(error)
        sys.exit(error.exit_code)
