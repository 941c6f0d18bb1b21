"""`paceline resume`."""

from __future__ import annotations

import signal
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.run import assembled, carry_out, fields_of, interrupt_on

HELP = """Go on with a RUN that did not finish, from its newest checkpoint.

It must have been started with --checkpoint-every. The new run has a folder of its own, names its \
parent, and ends as the parent would have.

Examples:

  paceline resume last

  paceline resume 20261118-144051 --set steps=5000
"""


def resume(  # noqa: PLR0917 - each is an option on the command line
    run: Annotated[
        str, typer.Argument(help="A run's folder, part of its name, or `last`.", show_default=False)
    ],
    more_settings: Annotated[
        list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", hidden=True)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Go on with another number of workers; the result is then not what it would have "
            "been, and says so."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Change how long it is (steps=5000), or what is recorded; more may follow.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of all runs.")] = Path("runs"),
    json_: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON object, on the last line.")
    ] = False,
) -> None:
    """Go on with a run that did not finish."""
    from paceline.api.resuming import origin_of

    interrupt_on(signal.SIGTERM, signal.SIGHUP)
    settings = fields_of([*(set_ or []), *(more_settings or [])])
    if workers is not None:
        settings["num_workers"] = workers
    spec, origin = origin_of(run, settings, out)
    with assembled(tomllib.loads(spec.toml())) as drives:
        if drives:
            carry_out(spec, out, json_, origin)
