"""The end of a run: rows become Parquet and TensorBoard files, and a result is made of them.

Everything is made from what the processes wrote themselves, so a run whose driver was killed can
be sealed by whoever finds it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from paceline.device_usage import with_device_usage
from paceline.measure.tensorboard import write_events
from paceline.outcome import Outcome, Row, result_of
from paceline.results import Facts, Result
from paceline.runs import RunDir, written_beside
from paceline.verdict import judge


def seal(run: RunDir, facts: Facts, outcome: Outcome) -> Result:
    """Write everything that is kept of a run, and last its result."""
    run.free_ballast()
    workers = [f"worker{index}" for index in range(facts.num_workers)]
    steps = [{"seat": seat, **row} for seat in workers for row in _rows_of(run, seat)]
    nodes = [{"node": node, **row} for node in facts.seats for row in _rows_of(run, node)]
    if facts.compute == "replayed":
        nodes = with_device_usage(nodes, steps, facts.seats)
    outcome.links = outcome.links or {row["node"]: row for row in _rows_of(run, "links")}
    outcome.evaluations = outcome.evaluations or list(_rows_of(run, "evaluations"))
    parts: dict[Path, Callable[[], None]] = {
        run.steps: lambda: _write_parquet(run.steps, steps),
        run.nodes: lambda: _write_parquet(run.nodes, nodes),
        run.evaluations: lambda: _write_parquet(run.evaluations, outcome.evaluations),
        run.losses: lambda: _write_losses(run, workers),
    }
    if facts.tensorboard:
        parts[run.tensorboard] = lambda: write_events(
            run.tensorboard, steps, nodes, outcome.evaluations, list(_rows_of(run, "graph"))
        )
    for path, write in parts.items():
        _write_or_warn(path, write, outcome)
    result = result_of(run.path, facts, outcome, steps, nodes)
    result = result.judged(judge(result))
    run.seal(result.table())
    return result


def seal_abandoned(run: RunDir) -> Result:
    """Seal a run whose driver is gone."""
    run.hold()
    try:
        warnings = [row["text"] for row in _rows_of(run, "warnings")]
        reason = "its driver was killed"
        outcome = Outcome(status="interrupted", reason=reason, warnings=warnings)
        return seal(run, Facts(**run.read_facts()), outcome)
    finally:
        run.let_go()


def _write_or_warn(path: Path, write: Callable[[], None], outcome: Outcome) -> None:
    """A table that cannot be written, for want of space perhaps, must not cost the result."""
    try:
        write()
    except Exception as error:  # noqa: BLE001 - polars and TensorBoard raise kinds of their own
        outcome.warnings.append(f"{path.name} could not be written: {error}")


def _rows_of(run: RunDir, seat: str) -> Iterator[Row]:
    """Read a process's rows; the last may be cut off where the process was killed."""
    try:
        text = run.seat_records(seat).read_text()
    except FileNotFoundError:
        return
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def _write_parquet(path: Path, rows: list[Row]) -> None:
    import polars

    if not rows:
        return
    # What never was, a loss or a link's counter, is a column of numbers all the same.
    kinds = {"loss_": polars.Float64, "net_": polars.Int64, "packets_": polars.Int64}
    known = {key: kind for key in rows[0] for start, kind in kinds.items() if key.startswith(start)}
    frame = polars.DataFrame(rows, infer_schema_length=None, schema_overrides=known)
    written_beside(path, frame.write_parquet)


def _write_losses(run: RunDir, workers: list[str]) -> None:
    """Join the losses of every mini-batch, where they were kept."""
    import numpy as np
    import polars

    frames = []
    for seat in workers:
        path = run.seat_losses(seat)
        if path.exists():
            usable_bytes = path.stat().st_size // 4 * 4
            losses = np.frombuffer(path.read_bytes()[:usable_bytes], dtype=np.float32)
            steps = np.arange(1, len(losses) + 1)
            frames.append(polars.DataFrame({"worker_step": steps, "loss": losses}))
            frames[-1].insert_column(0, polars.lit(seat).alias("seat"))
    if frames:
        written_beside(run.losses, polars.concat(frames).write_parquet)
