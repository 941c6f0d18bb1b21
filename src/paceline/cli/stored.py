"""`paceline ls` and `paceline show`: the runs that are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.run import asked
from paceline.cli.workloads import show_graph
from paceline.errors import PacelineError, Problem, SpecError
from paceline.reading.untrusted import one_line, visible

if TYPE_CHECKING:
    from paceline.outcome.results import Result
    from paceline.store.runs import RunDir
    from paceline.workloads.base import Workload

Out = Annotated[Path, typer.Option("--out", help="The folder of all runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_MOST_EVALUATIONS = 200
# Heading, whether it is of numbers, and how soon it goes below its row.
_COLUMNS = (
    ("id", False, 0),
    ("workload", False, 0),
    ("strategy", False, 0),
    ("N x batch", True, 0),
    ("steps", True, 1),
    ("steps/s", True, 0),
    ("loss", True, 1),
    ("accuracy", True, 0),
    ("test metric", True, 1),
    ("compute", False, 2),
    ("goes on from", False, 1),
    ("status", False, 0),
)
# Left out where no run has one.
_WHERE_MEASURED = ("accuracy", "test metric", "goes on from")


def ls(out: Out = Path("runs"), json_: AsJson = False) -> None:
    """List the runs, oldest first. Seals those whose driver was killed."""
    from paceline.cli.layout import Head
    from paceline.cli.tables import listing
    from paceline.display.consoles import wide_console
    from paceline.store.runs import all_runs

    results = [(run, result_of(run)) for run in all_runs(out)]
    if json_:
        print(json.dumps([_listed(run, result) for run, result in results]))  # noqa: T201
        return
    if not results:
        typer.echo(f"no runs in {out}")
        return
    rows = [_cells(run, result) for run, result in results]
    shown = [at for at, (text, *_) in enumerate(_COLUMNS) if _is_shown(text, at, rows)]
    heads = [_COLUMNS[at] for at in shown]
    table = listing(*(Head(text, is_number, rank=rank) for text, is_number, rank in heads))
    for cells, (_, result) in zip(rows, results, strict=True):
        note = one_line(result, 500) if isinstance(result, str) else ""
        table.add_row(*(one_line(cells[at], 200) for at in shown), note=note)
    wide_console().print(table)


def _is_shown(text: str, column: int, rows: list[list[str]]) -> bool:
    return text not in _WHERE_MEASURED or any(cells[column] not in {"", "-"} for cells in rows)


def show(  # noqa: PLR0917 - each is an option on the command line
    run: Annotated[
        str,
        typer.Argument(
            help="A run's folder, part of its name, or `last`; with --graph a workload, "
            "or the spec.toml of a run."
        ),
    ],
    more_settings: Annotated[
        list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", hidden=True)
    ] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Show the layers of a workload's model instead.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="With --graph: set a field of the workload."
        ),
    ] = None,
    run_code: Annotated[
        bool,
        typer.Option(
            "--run-code",
            help="With --graph and the spec.toml of a run: import the user-defined class that it "
            "names, which runs its code.",
        ),
    ] = False,
    out: Out = Path("runs"),
    json_: AsJson = False,
) -> None:
    """Show one run: its outcome, where the time went, what each node used, its spec.

    With --graph, show what a workload's model is made of, layer by layer.
    """
    settings = [*(set_ or []), *(more_settings or [])]
    if graph:
        show_graph(_workload(run, settings, run_code=run_code), as_json=json_)
        return
    if settings:
        raise SpecError(
            [Problem("--set", settings[0], "only with --graph: a stored run cannot be changed")]
        )
    from paceline.cli.summary import print_listeners, print_result
    from paceline.store.runs import find_run
    from paceline.store.stored import making_sense

    found = find_run(run, out)
    result = result_of(found)
    if json_:
        print(json.dumps(_listed(found, result)))  # noqa: T201
        return
    if result is None or isinstance(result, str):
        typer.echo(visible(f"{found.path}: {result or 'still running'}"))
        return
    with making_sense(found.path):
        print_result(result)
        print_listeners(result)
    _print_evaluations(found)
    typer.echo(f"\n{found.spec_text()}")


def _workload(name: str, settings: list[str], *, run_code: bool) -> Workload:
    """Make the workload that is asked for, with the fields that are set."""
    from paceline.parts import build_part, code_in

    reason = "with --graph only fields of the workload can be set: --set workload.field=value"
    others = [each for each in settings if not each.startswith("workload.")]
    if others:
        raise SpecError([Problem("--set", each, reason) for each in others])
    table = {"workload": asked(name, {}, settings).table().get("workload")}
    code = next(code_in(table), None) if name.endswith(".toml") else None
    if code and not run_code:
        reason = "user-defined code, which is not run without --run-code"
        raise SpecError([Problem("workload", code, reason)])
    workload: Workload = build_part("workload", table)
    return workload


def _print_evaluations(run: RunDir) -> None:
    from paceline.cli.tables import plain_table
    from paceline.display.consoles import wide_console
    from paceline.reading import frames

    try:
        if frames.num_rows(run.evaluations) < 2:  # known without polars, which takes long to import
            return
        frame = frames.read(run.evaluations, frames.EVALUATIONS)
    except PacelineError as error:
        typer.echo(visible(str(error)), err=True)
        return
    table = plain_table(*(f"{one_line(column, 60)}>" for column in frame.columns))
    for row in frame.tail(_MOST_EVALUATIONS).iter_rows():
        table.add_row(*map(_evaluated, row))
    wide_console().print(table)
    if len(frame) > _MOST_EVALUATIONS:
        typer.echo(f"the last {_MOST_EVALUATIONS} of {len(frame):,}; `paceline export` has all")


def _evaluated(value: float | None) -> str:
    from paceline.training.metrics import form_of

    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else format(value, form_of([value]))


def result_of(run: RunDir) -> Result | str | None:
    """Read a run's result: None while it runs, a message where it is not known."""
    from paceline.store import stored

    try:
        return stored.result_of(run)
    except PacelineError as error:
        return f"cannot be read: {error}"


def _listed(run: RunDir, result: Result | str | None) -> dict[str, Any]:
    if result is None:
        return {"run": str(run.path), "status": "running"}
    if isinstance(result, str):
        return {"run": str(run.path), "status": "unreadable", "reason": result}
    return result.table()


def _cells(run: RunDir, result: Result | str | None) -> list[str]:
    from paceline.display.consoles import rate, with_origin

    ident = run.name.rpartition("-")[2]
    if result is None or isinstance(result, str):
        status = "unreadable" if result else "running"
        return [ident, run.name[16:].rpartition("-")[0], *[""] * 9, status]
    steps = result.worker_steps if result.global_steps is None else result.global_steps
    per_s = result.worker_steps_per_s if result.global_steps is None else result.steps_per_s
    return [
        ident,
        with_origin(result.workload.rpartition(":")[2], result.data),
        result.strategy.rpartition(":")[2],
        f"{result.num_workers} x {result.batch_size}",
        f"{steps:,}",
        "-" if per_s is None else rate(per_s),
        _number(result.final_loss, ".4f"),
        "-" if result.test_accuracy is None else f"{100 * result.test_accuracy:.2f} %",
        _other_metric(result),
        result.full_label,
        "" if result.parent is None else result.parent.rpartition("-")[2],
        result.status,
    ]


def _other_metric(result: Result) -> str:
    """Write the first metric of a run that has no accuracy."""
    from paceline.training.metrics import in_order, written

    if result.test_accuracy is not None or not result.test_metrics:
        return ""
    first, *_ = in_order(result.test_metrics)
    return f"{first} {written(first, result.test_metrics[first])}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
