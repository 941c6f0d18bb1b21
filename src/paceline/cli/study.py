"""`paceline study`: the experiments of the reports, carried out here."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.run import interrupt_on, spec_table
from paceline.errors import Interrupted, Problem, SpecError, StoreError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from paceline.exhibits import Claim
    from paceline.studies.evidence import Evidence
    from paceline.studies.executor import Standing
    from paceline.studies.grid import Fields, Grid, Planned, Variant

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
) -> None:
    if name == "ls":
        _list()
        return
    if quick and full:
        raise SpecError([Problem("--full", full, "--quick is given too: one of them")])
    settings = [*(set_ or []), *(more_settings or [])]
    _carry_out(name, "full" if full else "quick", settings, only, out)


def _list() -> None:
    from paceline.cli.layout import Head
    from paceline.cli.tables import listing, number, wide_console, words
    from paceline.studies import STUDIES, WAITING
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
    for name, when in WAITING.items():
        table.add_row(name, when)
    console = wide_console()
    console.print(table)
    console.print("\nThe reports that they follow:")
    for report in REPORTS.values():
        console.print(f"  {report.short}: {report.full}", markup=False)


def _carry_out(
    name: str, variant: Variant, settings: list[str], only: str | None, out: Path
) -> None:
    from paceline import studies
    from paceline.studies.executor import carry_out, gathered
    from paceline.studies.finding import place
    from paceline.studies.folder import StudyDir
    from paceline.studies.grid import Grid
    from paceline.studies.here import settle

    studies.load(name)
    grid = Grid.read(name)
    fields = _settings(settings)
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


def _chosen(plans: list[Planned], only: str | None) -> list[Planned]:
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
    from paceline.studies.grid import flat

    over = spec_table("", {}, settings)
    workload = over.pop("workload")
    name = workload.pop("name", "") if isinstance(workload, dict) else workload
    if name:
        raise SpecError([Problem("workload", name, "a study sets its own workloads")])
    return flat({**over, "workload": workload})


def report_again(path: Path, to: Path | None, title: str | None, *, run_code: bool) -> None:
    """Write the page of a study's folder from what is finished, whether all of it is or not.

    Classes of somebody's own that its note names are imported only if their code may be run.
    """
    from paceline import studies
    from paceline.parts import code_in
    from paceline.studies.executor import gathered
    from paceline.studies.folder import StudyDir
    from paceline.studies.grid import Grid

    folder = StudyDir(path)
    name, variant, fields = folder.noted()
    studies.load(name)  # says so where it is none of ours
    plans = Grid.read(name).plan(variant, fields)
    named = next((code for each in plans for code in code_in(each.table())), None)
    if named and not run_code:
        reason = f"its runs use {named}; --run-code imports that code, which is needed to find them"
        raise StoreError(f"{path}: {reason}")
    _show(name, variant, fields, gathered(plans, folder), path, to=to, title=title)


def _show(
    name: str,
    variant: Variant,
    fields: Fields,
    evidence: Evidence,
    folder: Path,
    *,
    to: Path | None = None,
    title: str | None = None,
) -> None:
    """Write the page, and say what it says."""
    from paceline import report, studies
    from paceline.studies.base import page_of
    from paceline.studies.evidence import with_peers
    from paceline.studies.grid import Grid

    known = with_peers(evidence, folder.parent)
    page = page_of(studies.load(name), Grid.read(name), variant, known, fields)
    if title is not None:
        page = dataclasses.replace(page, title=title)
    path = report.write(page, to or folder)
    _print_claims(page.claims)
    for sentence in page.conclusion:
        typer.echo(sentence)
    typer.echo(f"\nreport: {path}")


def _introduce(grid: Grid, variant: Variant) -> None:
    typer.echo(f"{grid.name}: {grid.title}. {grid.reports}.", err=True)
    for report in grid.after:
        typer.echo(f"  {report.short}: {report.full}", err=True)
    typer.echo(f"--{variant}: {grid.says(variant)}.", err=True)


def _print_claims(claims: list[Claim]) -> None:
    from rich.text import Text

    from paceline.cli.layout import Head
    from paceline.cli.tables import listing, wide_console, words

    colours = {"holds": "green", "does not hold here": "yellow", "cannot be tested here": "dim"}
    table = listing(Head("claim"), Head("judgement"), words("measured here"))
    for claim in claims:
        told = claim.reason if claim.measured == "-" else claim.measured
        table.add_row(claim.key, Text(claim.judgement, style=colours[claim.judgement]), told)
    wide_console().print(table)


@contextlib.contextmanager
def _watching(name: str) -> Iterator[Callable[[Standing], None]]:
    """Show how far the whole study is: a live panel on a terminal, a line a run in a pipe."""
    from paceline.cli.tables import wide_console

    console = wide_console(stderr=True)
    if not console.is_terminal:
        yield lambda standing: _line(console, standing)
        return
    from rich.live import Live

    with Live(console=console, refresh_per_second=8, transient=True) as live:

        def show(standing: Standing) -> None:
            _line(live.console, standing)
            live.update(_panel(name, standing))

        yield show


def _line(console: Console, standing: Standing) -> None:
    """Say what came of a run that is over."""
    result = standing.result
    if standing.failure is not None:
        told = f"failed: {standing.failure.splitlines()[0]}"
    elif result is not None:
        loss = "" if result.final_loss is None else f", loss {result.final_loss:.4f}"
        told = f"{result.train_s or 0:.1f} s{loss}"
    else:
        return
    where = f"[{standing.num_done}/{standing.num_all}]"
    console.print(f"{where} {standing.name}: {told}{_left(standing)}", markup=False)


def _panel(name: str, standing: Standing) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from paceline.cli.live import headline

    top = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=standing.num_all, completed=standing.num_done, width=24)
    counted = f"{standing.num_done} of {standing.num_all} runs{_left(standing)}"
    top.add_row(Text(name, style="bold"), bar, counted)
    lines: list[Any] = [top]
    if standing.view is not None:
        lines.append(Text(f"  {standing.name} · {headline(standing.view)}"))
    return Group(*lines)


def _left(standing: Standing) -> str:
    if standing.left_s is None:
        return ""
    minutes, seconds = divmod(round(standing.left_s), 60)
    return f" · {minutes} min {seconds:02} s left" if minutes else f" · {seconds} s left"
