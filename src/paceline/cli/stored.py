"""`paceline ls` and `paceline show`: the runs that are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.results import Result
    from paceline.runs import RunDir

Out = Annotated[Path, typer.Option("--out", help="The folder of all runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_COLUMNS = (
    "id",
    "workload",
    "strategy",
    "N x batch>",
    "steps>",
    "steps/s>",
    "loss>",
    "accuracy>",
    "status",
)


def ls(out: Out = Path("runs"), json_: AsJson = False) -> None:
    """List the runs, oldest first. Seals those whose driver was killed."""
    from paceline.cli.tables import plain_table, wide_console
    from paceline.runs import all_runs

    results = [(run, _result_of(run)) for run in all_runs(out)]
    if json_:
        print(json.dumps([_listed(run, result) for run, result in results]))  # noqa: T201
        return
    if not results:
        typer.echo(f"no runs in {out}")
        return
    table = plain_table(*_COLUMNS)
    for run, result in results:
        table.add_row(*_cells(run, result))
    wide_console().print(table)


def show(
    run: Annotated[str, typer.Argument(help="A run's folder, part of its name, or `last`.")],
    out: Out = Path("runs"),
    json_: AsJson = False,
) -> None:
    """Show one run: its outcome, where the time went, what each node used, its spec."""
    from paceline.cli.summary import print_result
    from paceline.runs import find_run

    found = find_run(run, out)
    result = _result_of(found)
    if json_:
        print(json.dumps(_listed(found, result)))  # noqa: T201
        return
    if result is None or isinstance(result, str):
        typer.echo(f"{found.path}: {result or 'still running'}")
        return
    print_result(result)
    _print_evaluations(found)
    typer.echo(f"\n{found.spec.read_text()}")


def _print_evaluations(run: RunDir) -> None:
    from paceline.cli.tables import plain_table, wide_console

    if not run.evaluations.exists():
        return
    import polars

    frame = polars.read_parquet(run.evaluations)
    if len(frame) < 2:
        return
    table = plain_table(*(f"{column}>" for column in frame.columns))
    for row in frame.iter_rows():
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else f"{cell:.4f}" for cell in row))
    wide_console().print(table)


def _result_of(run: RunDir) -> Result | str | None:
    """Read a run's result: None while it runs, a message where it cannot be told."""
    from paceline.results import Result

    try:
        if run.is_sealed:
            return Result.from_table(run.read_result())
        if run.driver_is_alive():
            return None
        from paceline.sealing import seal_abandoned

        return seal_abandoned(run)
    except (PacelineError, OSError, KeyError, TypeError) as error:
        return f"cannot be read: {error}"


def _listed(run: RunDir, result: Result | str | None) -> dict[str, Any]:
    if result is None:
        return {"run": str(run.path), "status": "running"}
    if isinstance(result, str):
        return {"run": str(run.path), "status": "unreadable", "reason": result}
    return result.table()


def _cells(run: RunDir, result: Result | str | None) -> list[str]:
    ident = run.name.rpartition("-")[2]
    if result is None or isinstance(result, str):
        return [ident, run.name[16:].rpartition("-")[0], *[""] * 6, result or "running"]
    steps = result.worker_steps if result.global_steps is None else result.global_steps
    rate = result.worker_steps_per_s if result.global_steps is None else result.steps_per_s
    return [
        ident,
        result.workload.rpartition(":")[2],
        result.strategy.rpartition(":")[2],
        f"{result.num_workers} x {result.batch_size}",
        f"{steps:,}",
        _number(rate, ",.0f"),
        _number(result.final_loss, ".4f"),
        "-" if result.test_accuracy is None else f"{100 * result.test_accuracy:.2f} %",
        result.status,
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
