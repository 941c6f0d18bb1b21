"""The end of a run: rows become Parquet and TensorBoard files, and a result is made of them.

Everything is made from what the processes wrote themselves, so a run whose driver was killed can
be sealed by whoever finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from paceline.errors import StoreError
from paceline.outcome.device_usage import with_device_usage
from paceline.outcome.facts import Facts
from paceline.outcome.outcome import Outcome, Row, result_of
from paceline.outcome.results import Result
from paceline.reading import untrusted
from paceline.reading.schema import AnyFloat, fits
from paceline.store.parquet_files import write_losses, write_rows
from paceline.store.runs import RunDir
from paceline.store.tensorboard import write_events
from paceline.verdict import judge

# How much of rows is read to seal a run that somebody left: two days of one worker.
_MOST_ROW_BYTES: Final = 1 << 30


@final
@dataclass(frozen=True)
class _Kind:
    """What rows of a process hold: what a result is made of must be there, and of its type."""

    needed: Mapping[str, Any]
    others: Mapping[str, Any] = field(default_factory=dict)
    rest: Any = Any


_Number = AnyFloat | None
_STEPS: Final = _Kind(
    {
        "time_s": float,
        "worker_steps": int,
        "samples": int,
        "global_steps": int | None,
        "count": int,
        "load_s": float,
        "compute_s": float,
        "exchange_s": float,
        "loss_mean": _Number,
    },
    rest=_Number,
)
_NODES: Final = _Kind(
    {
        "time_s": float,
        "phase": str,
        "cpu_percent": float | None,
        "memory_bytes": int | None,
        "disk_read_bytes": int | None,
        "disk_written_bytes": int | None,
    },
    {"seats": list[dict[str, Any]]},
    rest=int | None,
)
_LINKS: Final = _Kind({"node": str}, rest=float | None)
_EVALUATIONS: Final = _Kind({"time_s": float, "progress": int}, rest=_Number)
_GRAPH: Final = _Kind({"name": str, "kind": str, "shape": list[int], "inputs": list[str]})
_WARNINGS: Final = _Kind({"text": str})


def seal(run: RunDir, facts: Facts, outcome: Outcome) -> Result:
    """Write everything that is kept of a run, and last its result."""
    run.check_there()  # or a folder of its name would be made anew
    run.free_ballast()
    workers = facts.workers
    steps = [row for seat in workers for row in _named("seat", seat, _rows_of(run, seat, _STEPS))]
    nodes = [
        row for node in facts.seats for row in _named("node", node, _rows_of(run, node, _NODES))
    ]
    if facts.compute == "replayed":
        nodes = with_device_usage(nodes, steps, facts.seats)
    outcome.links = outcome.links or {row["node"]: row for row in _rows_of(run, "links", _LINKS)}
    outcome.evaluations = outcome.evaluations or list(_rows_of(run, "evaluations", _EVALUATIONS))
    parts: dict[Path, Callable[[], None]] = {
        run.steps: lambda: write_rows(run.steps, steps),
        run.nodes: lambda: write_rows(run.nodes, nodes),
        run.evaluations: lambda: write_rows(run.evaluations, outcome.evaluations),
        run.losses: lambda: write_losses(run.losses, _losses_of(run, workers)),
    }
    if facts.tensorboard:
        parts[run.tensorboard] = lambda: write_events(
            run.tensorboard,
            steps,
            nodes,
            outcome.evaluations,
            list(_rows_of(run, "graph", _GRAPH)),
            disturbances=outcome.disturbances,
        )
    for path, write in parts.items():
        _write_or_warn(path, write, outcome)
    result = result_of(run.path, facts, outcome, steps, nodes)
    result = result.judged(judge(result))
    run.seal(result.table())
    return result


def seal_abandoned(run: RunDir) -> Result:
    """Seal a run whose driver is gone; `StoreError` where it is not one that we began."""
    if reason := run.why_not_ours():
        raise StoreError(f"{run.path} has no seal and cannot be sealed: {reason}")
    facts = Facts.from_table(run.read_facts())
    num_bytes = sum(each.lstat().st_size for each in run.records.iterdir())
    if num_bytes > _MOST_ROW_BYTES:
        raise StoreError(f"{run.records} cannot be sealed: {num_bytes:,} bytes of rows")
    run.hold()
    try:
        warnings = [row["text"] for row in _rows_of(run, "warnings", _WARNINGS)]
        reason = "its driver was killed"
        outcome = Outcome(status="interrupted", reason=reason, warnings=warnings)
        return seal(run, facts, outcome)
    finally:
        run.let_go()


def _write_or_warn(path: Path, write: Callable[[], None], outcome: Outcome) -> None:
    """A table that cannot be written, for want of space perhaps, must not cost the result."""
    try:
        write()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of polars is no Exception
        outcome.warnings.append(f"{path.name} could not be written: {error}")


def _named(key: str, name: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Say whose each row is; what it says of that itself is left aside."""
    for row in rows:
        row.pop(key, None)
        yield {key: name, **row}


def _rows_of(run: RunDir, seat: str, kind: _Kind) -> Iterator[Row]:
    """Read a process's rows; the last may be cut off where the process was killed.

    Rows end where one is not of the kind that its process writes.
    """
    try:
        for line in untrusted.lines_of(run.seat_records(seat)):
            row = untrusted.parsed_json(line)
            if not fits(row, kind.needed, kind.others, kind.rest):
                return
            yield row
    except (FileNotFoundError, ValueError):
        return


def _losses_of(run: RunDir, workers: list[str]) -> dict[str, Path]:
    """Find the files of those that kept the loss of every mini-batch."""
    files = {seat: run.seat_losses(seat) for seat in workers}
    return {seat: file for seat, file in files.items() if file.exists()}
