"""`paceline export`: the rows of runs, for other programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from paceline.cli.report import Out, RunsArgument, tell_left_out
from paceline.errors import StoreError

if TYPE_CHECKING:
    import polars

    from paceline.store.stored import StoredRun

ExportFormat = Literal["csv", "parquet", "tensorboard", "chrome-trace"]


def export(
    runs: RunsArgument,
    format_: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="csv, parquet: one table for all runs of results, steps, nodes, evaluations and "
            "losses. tensorboard: a folder of events per run. chrome-trace: a file "
            "per run, every seat "
            "on one clock, for Perfetto.",
        ),
    ] = "csv",
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write into.")] = Path(
        "export"
    ),
    out: Out = Path("runs"),
) -> None:
    """Write what runs recorded as files that other programs read.

    Tables have a column `run`, so that the rows of several runs stay apart.
    """
    from paceline.api.written import found

    stored, problems = found(runs, out)
    tell_left_out(problems)
    _refuse_runs([to / run.name for run in stored] if format_ == "tensorboard" else [to])
    try:
        written = _WRITERS[format_](stored, to)
    except OSError as error:
        raise StoreError(f"cannot write to {to}: {error.strerror or error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Columns are of their types, but what stands in the rows need not go together.
        raise StoreError(f"rows that cannot be written as {format_}: {error!r}") from error
    for path in written:
        typer.echo(path)


def _refuse_runs(folders: list[Path]) -> None:
    """Keep out of runs: files of the same names are theirs, and a run is never changed."""
    from paceline.store.runs import RunDir

    for folder in folders:
        for each in (folder.resolve(), *folder.resolve().parents):
            if RunDir(each).spec.is_file() or RunDir(each).is_sealed:
                raise StoreError(
                    f"nothing was written to {folder}: {each} is a run; choose another --to"
                )


def _tables(format_: str, stored: list[StoredRun], to: Path) -> list[Path]:
    from paceline.reporting.texts import without_formulas
    from paceline.store.whole_files import written_beside

    frames = {name: _joined(stored, name) for name in ("steps", "nodes", "evaluations", "losses")}
    nodes, seats = _unfolded(frames["nodes"])
    frames = {"results": _results(stored), **frames, "nodes": nodes, "seats": seats}
    to.mkdir(parents=True, exist_ok=True)
    written = []
    for name, frame in frames.items():
        if not frame.is_empty():
            path = to / f"{name}.{format_}"
            kept = without_formulas(frame) if format_ == "csv" else frame
            written_beside(path, getattr(kept, f"write_{format_}"))
            written.append(path)
    return written


def _joined(stored: list[StoredRun], name: str) -> polars.DataFrame:
    """One kind of rows of all runs; a column that some do not have is empty there."""
    import polars

    frames = []
    for run in stored:
        frame: polars.DataFrame = getattr(run, name)
        if not frame.is_empty():
            frames.append(frame.select(polars.lit(run.name).alias("run"), polars.all()))
    return polars.concat(frames, how="diagonal_relaxed") if frames else polars.DataFrame()


def _unfolded(nodes: polars.DataFrame) -> tuple[polars.DataFrame, polars.DataFrame]:
    """Samples of nodes, and in a table of their own those of the seats that they hold."""
    import polars

    if "seats" not in nodes.columns:
        return nodes, polars.DataFrame()
    seats = nodes.select("run", "node", "time_s", "phase", "seats").explode("seats").drop_nulls()
    if seats.is_empty():  # so short a run that no sample has a seat in it: of no type at all
        return nodes.drop("seats"), polars.DataFrame()
    return nodes.drop("seats"), seats.unnest("seats")


def _results(stored: list[StoredRun]) -> polars.DataFrame:
    """One row a run: what is a single value in its result."""
    import polars

    rows: list[dict[str, Any]] = []
    for run in stored:
        table = run.result.table() | {"run": run.name}
        plain = {key: each for key, each in table.items() if _is_one_value(key, each)}
        metrics = {f"test_{key}": each for key, each in run.result.test_metrics.items()}
        staleness, verdict = run.result.staleness, run.result.verdict
        found = {
            "staleness_mean": staleness.mean if staleness else None,
            "verdict": verdict.kind if verdict else None,
        }
        rows.append(plain | metrics | found)
    return polars.DataFrame(rows, infer_schema_length=None)


def _is_one_value(key: str, value: object) -> bool:
    return key != "staleness" and not isinstance(value, (dict, tuple, list))


def _events(stored: list[StoredRun], to: Path) -> list[Path]:
    """Write the events anew: a run may have been told not to."""
    from paceline.store.tensorboard import write_events

    written = []
    for run in stored:
        folder = to / run.name
        rows = (run.steps.to_dicts(), run.nodes.to_dicts(), run.evaluations.to_dicts())
        write_events(folder, *rows)
        written.append(folder)
    return written


def _traces(stored: list[StoredRun], to: Path) -> list[Path]:
    from paceline.store.chrome_trace import write_chrome_trace

    to.mkdir(parents=True, exist_ok=True)
    written = []
    for run in stored:
        path = to / f"{run.name}.trace.json"
        write_chrome_trace(run.folder, run.result, path)
        written.append(path)
    return written


_WRITERS: Final[dict[str, Callable[[list[StoredRun], Path], list[Path]]]] = {
    "csv": partial(_tables, "csv"),
    "parquet": partial(_tables, "parquet"),
    "tensorboard": _events,
    "chrome-trace": _traces,
}
