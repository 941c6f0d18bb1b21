"""`paceline study`: the experiments of the reports, carried out here."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.elsewhere import fields_elsewhere
from paceline.cli.run import assembled, fields_of, interrupt_on
from paceline.errors import Interrupted, Problem, SpecError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from paceline.exhibits.values import Claim
    from paceline.settings import Fields
    from paceline.studies.evidence import Evidence
    from paceline.studies.executor import StudyStanding
    from paceline.studies.grid import Grid, PlannedRun, Variant

HELP = """Carry out a study: its runs, tables, figures and claims, on one page.

A study is a grid of runs that reproduces the experiments of a report. Finished runs are \
not repeated: the same command continues a study that was stopped.

Examples:

  paceline study ls

  paceline study mnist-logistic --quick

  paceline study lenet-scaling --full --out runs

  paceline study ps-vs-ring --full --only ring,links
"""


def study(  # noqa: PLR0917 - each is an option on the command line
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|ls", help="A study, or `ls` to list them.", show_default=False
        ),
    ],
    more_settings: Annotated[
        list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", hidden=True)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version of each part, in minutes; the default.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="The report's own numbers; may take hours.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="Set any field of the spec, in every run."
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="GROUP,...", help="Carry out only these groups of its runs, for now."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of all runs.")] = Path("runs"),
    cluster: Annotated[
        str | None,
        typer.Option(help="Carry it out on this cluster, such as ssh, not on the study's own."),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="With --cluster ssh: the machines; runs of fewer workers use the first of them.",
        ),
    ] = None,
) -> None:
    if name == "ls":
        _list()
        return
    if quick and full:
        raise SpecError([Problem("--full", full, "--quick is given too: one of them")])
    from paceline.settings import merged, nested

    fields = _settings([*(set_ or []), *(more_settings or [])])
    fields = merged(fields_elsewhere(cluster, hosts), fields)
    variant: Variant = "full" if full else "quick"
    own = {key: value for key, value in fields.items() if key.startswith("cluster")}
    with assembled(nested(own)) if own else contextlib.nullcontext(True) as drives:
        if drives:
            _carry_out(name, variant, fields, only, out)


def _list() -> None:
    from paceline.cli.layout import Head
    from paceline.cli.tables import listing, number, words
    from paceline.display.consoles import wide_console
    from paceline.studies import STUDIES
    from paceline.studies.grid import Grid
    from paceline.studies.reports import REPORTS

    counts_of = (number("runs quick"), number("full"))
    table = listing(Head("name"), words("what it is"), words("after"), *counts_of, Head("claims"))
    for name, what in STUDIES.items():
        grid = Grid.read(name)
        keys = list(grid.claims)
        counts = [str(len(grid.plan(variant))) for variant in ("quick", "full")]
        after = ", ".join(each.short for each in grid.after)
        table.add_row(name, what, after, *counts, f"{keys[0]} to {keys[-1]}")
    console = wide_console()
    console.print(table)
    console.print("\nThe reports that they follow:")
    for report in REPORTS.values():
        console.print(f"  {report.short}: {report.full}", markup=False)


def _carry_out(name: str, variant: Variant, fields: Fields, only: str | None, out: Path) -> None:
    from paceline import studies
    from paceline.studies.executor import carry_out, gathered
    from paceline.studies.finding import place
    from paceline.studies.folder import StudyDir
    from paceline.studies.grid import Grid
    from paceline.studies.here import settle

    studies.load(name)
    grid = Grid.read(name)
    grid.refuse_varied(fields)
    plans = grid.plan(variant, fields)
    runs = settle(_chosen(plans, only))
    folder = StudyDir(place(out, name, variant))
    _introduce(grid, variant)
    interrupt_on(signal.SIGTERM, signal.SIGHUP)
    try:
        with _watching(name) as watch:
            begin = partial(folder.note, name, variant, fields)
            evidence = carry_out(runs, folder, watch, begin=begin)
    except (Interrupted, KeyboardInterrupt) as error:
        reason = (
            f"stopped; finished runs are kept in {folder.path}: the same command continues, and "
            f"`paceline report {folder.path}` shows what is there"
        )
        raise Interrupted(reason) from error
    _show(name, variant, fields, evidence if only is None else gathered(plans, folder), folder.path)
    if any(each.spec is not None and each.planned.name in evidence.missing for each in runs):
        raise typer.Exit(1)


def _chosen(plans: list[PlannedRun], only: str | None) -> list[PlannedRun]:
    """Give the runs of the groups that are named; all, where none is."""
    if only is None:
        return plans
    wanted = {each.strip() for each in only.split(",")}
    groups = tuple(dict.fromkeys(each.group for each in plans))
    unknown = sorted(wanted - set(groups))
    if unknown:
        reason = "the study has no such group of runs"
        raise SpecError([Problem("--only", each, reason, groups) for each in unknown])
    return [each for each in plans if each.group in wanted]


def _settings(settings: list[str]) -> dict[str, Any]:
    """Read what is set in every run, by dotted names. Which workloads it has is the study's own."""
    fields = fields_of(settings)
    for key in ("workload", "workload.name"):
        if key in fields:
            raise SpecError([Problem("workload", fields[key], "a study sets its own workloads")])
    return fields


def _show(name: str, variant: Variant, fields: Fields, evidence: Evidence, folder: Path) -> None:
    """Write the page, and say what it says."""
    from paceline import reporting
    from paceline.studies.pages import page_with

    page = page_with(name, variant, fields, evidence, folder)
    path = reporting.write(page, folder)
    print_claims(page.claims)
    for sentence in page.conclusion:
        typer.echo(sentence)
    typer.echo(f"\nreport: {path}")


def _introduce(grid: Grid, variant: Variant) -> None:
    typer.echo(f"{grid.name}: {grid.title}. {grid.reports}.", err=True)
    for report in grid.after:
        typer.echo(f"  {report.short}: {report.full}", err=True)
    typer.echo(f"--{variant}: {grid.says(variant)}.", err=True)


def print_claims(claims: list[Claim]) -> None:
    """Print what a study's reports said, and whether it holds here."""
    from rich.text import Text

    from paceline.cli.layout import Head
    from paceline.cli.tables import listing, words
    from paceline.display.consoles import wide_console

    colours = {"holds": "green", "does not hold here": "yellow", "cannot be tested here": "dim"}
    table = listing(Head("claim"), Head("judgement"), words("measured here"))
    for claim in claims:
        told = claim.reason if claim.measured == "-" else claim.measured
        table.add_row(claim.key, Text(claim.judgement, style=colours[claim.judgement]), told)
    wide_console().print(table)


@contextlib.contextmanager
def _watching(name: str) -> Iterator[Callable[[StudyStanding], None]]:
    """Show how far the whole study is: a live panel on a terminal, a line a run in a pipe."""
    from paceline.display.consoles import wide_console

    console = wide_console(stderr=True)
    if not console.is_terminal:
        yield lambda standing: _line(console, standing)
        return
    from rich.live import Live

    with Live(console=console, refresh_per_second=8, transient=True) as live:

        def show(standing: StudyStanding) -> None:
            _line(live.console, standing)
            live.update(_panel(name, standing))

        yield show


def _line(console: Console, standing: StudyStanding) -> None:
    """Say what came of a run that is over."""
    result = standing.result
    if standing.failure is not None:
        told = f"failed: {standing.failure.splitlines()[0]}"
    elif result is not None:
        loss = "" if result.final_loss is None else f", loss {result.final_loss:.4f}"
        told = f"{result.train_s or 0:.1f} s{loss}"
    else:
        return
    from paceline.display.consoles import text_of_left

    where = f"[{standing.num_done}/{standing.num_all}]"
    console.print(f"{where} {standing.name}: {told}{text_of_left(standing.left_s)}", markup=False)


def _panel(name: str, standing: StudyStanding) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from paceline.display.consoles import text_of_left
    from paceline.display.live import headline

    top = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=standing.num_all, completed=standing.num_done, width=24)
    counted = f"{standing.num_done} of {standing.num_all} runs{text_of_left(standing.left_s)}"
    top.add_row(Text(name, style="bold"), bar, counted)
    lines: list[Any] = [top]
    if standing.view is not None:
        lines.append(Text(f"  {standing.name} · {headline(standing.view)}"))
    return Group(*lines)
