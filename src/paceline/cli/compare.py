"""`paceline compare`: the same training under several strategies, a table and a conclusion."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from paceline.cli.options import with_options
from paceline.cli.run import assembled, interrupt_on, spec_options, split, value_of
from paceline.errors import Interrupted, Problem, SpecError
from paceline.settings import Asked

if TYPE_CHECKING:
    from paceline.comparing import Comparison
    from paceline.exhibits.values import Page

HELP = """Train a WORKLOAD under several strategies and say which is best, and why.

Every side sees the same rows in the same order. Takes all options of `paceline run`. Ends in one \
table, a conclusion in words and a report to open.

Examples:

  paceline compare logistic-mnist --workers 3 --epochs 10 --target-accuracy 0.9

  paceline compare lenet-mnist --strategies ring,ps-sync --repeat 3 --lr-scaling linear

  paceline compare logistic-mnist --strategies ring --epochs 2 --vary batch=10,100,1000
"""

_COMPARING = "What is compared"


def _compare(  # noqa: PLR0917 - each is an option on the command line
    wanted: Asked,
    strategies: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="The strategies, in this order.",
            show_default="single,ps-async,ps-sync,ring",
            rich_help_panel=_COMPARING,
        ),
    ] = None,
    repeat: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Run each side exactly this many times, in turns.",
            show_default="until the spread is known",
            rich_help_panel=_COMPARING,
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Without --repeat: start no round that would end after this many seconds.",
            show_default="180",
            rich_help_panel=_COMPARING,
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=A,B,...",
            help="Compare several values of a field of the spec too, such as batch=1,100,1000.",
            rich_help_panel=_COMPARING,
        ),
    ] = None,
    lr_scaling: Annotated[
        Literal["none", "linear"] | None,
        typer.Option(
            help="linear: N workers get N times the learning rate.", rich_help_panel=_COMPARING
        ),
    ] = None,
    tune_lr: Annotated[
        bool,
        typer.Option(
            "--tune-lr",
            help="Try 0.3, 1, 3 and 10 times the learning rate; compare each side at its best.",
            rich_help_panel=_COMPARING,
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with a comparison that was lost: finished runs of the same settings in "
            "--out count, and others go on from their checkpoints.",
        ),
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write the report; default: below reports/."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of all runs.")] = Path("runs"),
    json_: Annotated[
        bool, typer.Option("--json", help="Print everything as one JSON object, on the last line.")
    ] = False,
) -> None:
    from paceline import comparing
    from paceline.api.written import REPORTS
    from paceline.display.contests import following

    if lr_scaling is not None:
        wanted = Asked(wanted.base, {**wanted.fields, "optimizer.lr_scaling": lr_scaling})
    varied = _varied(vary or [])
    repeats = comparing.Repeats.of(repeat, budget)
    interrupt_on(signal.SIGTERM, signal.SIGHUP)
    with assembled(wanted.table()) as drives:
        if not drives:
            return
        with following() as audience:
            done = comparing.compare(
                wanted,
                strategies=None if strategies is None else split(strategies),
                vary=varied,
                repeats=repeats,
                tune_lr=tune_lr,
                out=out,
                to=to,
                reports=REPORTS,
                resume=resume,
                audience=audience,
            )
        _show(done, json_)


compare = with_options(spec_options, _compare, without=("strategy",))


def _varied(settings: list[str]) -> dict[str, list[object]]:
    """Read `batch=1,100,1000` as a field and its values."""
    varied: dict[str, list[object]] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        values = [value_of(each) for each in split(text)]
        if not (equals and key.strip() and values):
            raise SpecError([Problem("--vary", setting, "not of the form FIELD=A,B,...")])
        varied[key.strip()] = values
    return varied


def _show(done: Comparison, as_json: bool) -> None:
    _print(done.page, done.report)
    if as_json:
        print(json.dumps(done.table()))  # noqa: T201
        sys.stdout.flush()
    _end(done)


def _print(page: Page, path: Path | None) -> None:
    from rich.markup import escape

    from paceline.cli.tables import exhibit_table
    from paceline.display.consoles import wide_console

    console = wide_console()
    (table,) = (each for each in page.tables if each.name == "comparison")
    console.print(exhibit_table(table))
    console.print()
    first, *others = page.conclusion
    console.print(f"[bold]{escape(first)}[/]")
    for sentence in others:
        console.print(escape(sentence))
    console.print(f"\nreport: {escape(str(path))}", soft_wrap=True)


def _end(done: Comparison) -> None:
    """An interrupt and a failure are told by the exit code too."""
    if done.interrupted:
        raise Interrupted("stopped by the user; finished runs are in the report")
    if done.failures:
        raise typer.Exit(1)
