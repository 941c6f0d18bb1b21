"""`criteo-sparse`: the tables and figures of Jin et al. and the untitled report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import polars
from polars import col

from paceline.exhibits import drawing
from paceline.exhibits.values import Column, Figure, Table
from paceline.store import curves
from paceline.store.stored import StoredRun
from paceline.studies import charts, criteo_claims, medians
from paceline.studies.base import Study
from paceline.studies.criteo_claims import (
    accuracy,
    is_generated,
    larger_class,
    per_1000_steps,
    train_s,
)
from paceline.studies.criteo_operators import operators, profile
from paceline.studies.criteo_step import STEP_PARTS, step_parts
from paceline.studies.evidence import Evidence
from paceline.studies.measures import median, of

MODES: Final = {"sync": "ps-sync", "async": "ps-async"}
STEPS: Final = Column(name="progress", label="global steps", form=",.0f")
ERROR: Final = Column(name="error", label="test error", unit="%", form=".2f", scale=100)
WORKERS: Final = Column(name="num_workers", label="workers", form="d")
RATE: Final = Column(name="samples_per_s", label="rows per second", form=",.0f")
BATCH: Final = Column(name="batch", label="batch", form="d")
_GENERATED: Final = "Rows here are generated, of the same shape, with a planted model."

# Jin et al., table 1: 50,000 steps, evaluations included: minutes, accuracy.
TABLE_1: Final = {"sync": (23.75, 72.48), "async": (4.75, 74.73)}
# Jin et al.: seconds for 1,000 steps.
PER_1000: Final = {"sync": 6.0, "async": 2.5}
# Jin et al., table 2: sync 10,000 steps, async 30,000: CPU %, network read and written, disk read
# and written (M).
TABLE_2: Final = {"sync": (129, 92, 92, 1.3, 2.1), "async": (58, 248, 248, 0.31, 12.13)}
# Jin et al., table 3: seconds for the same rows (20,000 by its formula), by batch.
TABLE_3: Final = {
    "sync": {1: 135.7, 100: 67.9, 1000: 63.4, 10_000: 64.8},
    "async": {1: 145.5, 100: 65.5, 1000: 62.3, 10_000: 62.1},
}
# The untitled report, table 3: batch 20, one node; sync, async.
PEAKS: Final = {
    "peak disk (KB/s)": (240, 235),
    "peak CPU (%)": (38, 96),
    "peak memory (%)": (18, 46),
    "peak network (MB/s)": (349, 395),
}


def time_and_accuracy(evidence: Evidence) -> Table:
    """Time with and without evaluations, and accuracy, medians of seeds, beside Jin et al.'s."""
    rows, shown = [], []
    for mode, strategy in MODES.items():
        runs = evidence.need("steps", strategy=strategy)
        shown += runs
        rows.append(_time_row(mode, runs))
    title = "Time and accuracy at batch 1 (Jin et al., table 1)"
    note = medians.NOTE + _origin(shown)
    return charts.side_by_side("table-1", title, rows, _time_columns(), note=note, runs=shown)


def _time_row(mode: str, runs: Sequence[StoredRun]) -> dict[str, object]:
    return {
        "mode": mode,
        "steps": runs[0].result.global_steps,
        **medians.of_seeds(
            training=of(runs, train_s),
            evaluated=of(runs, _with_evaluations),
            per_1000=of(runs, per_1000_steps),
            accuracy=of(runs, accuracy),
        ),
        "n": len(runs),
        "larger": larger_class(runs[0]),
        "said_s": 60 * TABLE_1[mode][0],
        "said_1000": PER_1000[mode],
        "said_accuracy": TABLE_1[mode][1] / 100,
    }


def _time_columns() -> list[Column]:
    percent = {"unit": "%", "form": ".2f", "scale": 100.0}
    return [
        Column(name="mode", label="mode"),
        Column(name="steps", label="steps", form=",d"),
        *medians.columns(
            [
                Column(name="training", label="training", unit="s", form=",.1f"),
                Column(name="evaluated", label="with evaluations", unit="s", form=",.1f"),
                Column(name="per_1000", label="for 1,000 steps", unit="s", form=".3f"),
                Column(name="accuracy", label="accuracy", **percent),  # type: ignore[arg-type]
            ]
        ),
        medians.SEEDS,
        Column(name="larger", label="majority class", **percent),  # type: ignore[arg-type]
        Column(
            name="said_s",
            label="Jin et al.: with evaluations, 50,000 steps",
            unit="s",
            form=",.0f",
            published=True,
        ),
        Column(
            name="said_1000",
            label="Jin et al.: for 1,000 steps",
            unit="s",
            form=".1f",
            published=True,
        ),
        Column(name="said_accuracy", label="Jin et al.: accuracy", published=True, **percent),  # type: ignore[arg-type]
    ]


def bottleneck(evidence: Evidence) -> Table:
    """CPU, network and disk, beside Jin et al.'s."""
    names = ("CPU %", "network read MB", "network written MB", "disk read MB", "disk written MB")
    rows, shown = [], []
    for position, what in enumerate(names):
        row: dict[str, object] = {"what": what}
        for mode, strategy in MODES.items():
            run = evidence.first("bottleneck", strategy=strategy)
            shown.append(run)
            row[f"ours_{mode}"] = _bottleneck_values(run)[position]
            row[f"said_{mode}"] = TABLE_2[mode][position]
        rows.append(row)
    columns = [Column(name="what", label="node 0, batch 1")]
    columns += [Column(name=f"ours_{mode}", label=f"{mode}, here", form=",.2f") for mode in MODES]
    columns += [
        Column(name=f"said_{mode}", label=f"{mode}, Jin et al.", form=",.2f", published=True)
        for mode in MODES
    ]
    note = "Sync makes a third of async's steps, as in Jin et al. " + _origin(shown)
    title = "CPU, network, disk (Jin et al., table 2)"
    return charts.side_by_side("table-2", title, rows, columns, note=note, runs=shown)


def _batch_row(batch: int, runs: Mapping[str, Sequence[StoredRun]]) -> dict[str, object]:
    row: dict[str, object] = {"batch": batch}
    for mode, found in runs.items():
        times, right = of(found, train_s), of(found, accuracy)
        row[f"ours_{mode}"] = median(times) if times else None
        row[f"accuracy_{mode}"] = median(right) if right else None
        row[f"said_{mode}"] = TABLE_3[mode].get(batch)
    return row


def batch_times(evidence: Evidence) -> Table:
    """Seconds for the same rows by batch, beside Jin et al.'s."""
    rows, shown = [], []
    for batch in sorted(evidence.values("batch", "batch")):
        runs = {
            mode: evidence.find("batch", strategy=strategy, batch=batch)
            for mode, strategy in MODES.items()
        }
        shown += [run for each in runs.values() for run in each]
        shares = of(evidence.find("batch", batch=batch), larger_class)
        rows.append({**_batch_row(batch, runs), "larger": median(shares) if shares else None})
    if not rows:
        raise evidence.lacking("batch")
    columns = [BATCH]
    for mode in MODES:
        columns += [
            Column(name=f"ours_{mode}", label=f"{mode}, here", unit="s", form=",.2f"),
            Column(
                name=f"accuracy_{mode}", label=f"{mode}, accuracy", unit="%", form=".1f", scale=100
            ),
            Column(
                name=f"said_{mode}",
                label=f"{mode}, Jin et al.",
                unit="s",
                form=",.1f",
                published=True,
            ),
        ]
    columns.append(Column(name="larger", label="majority class", unit="%", form=".1f", scale=100))
    trained = f"{shown[0].result.samples:,}" if shown else "the same"
    title = f"Seconds for {trained} rows by batch, 2 workers (Jin et al., table 3: 20,000 rows)"
    return charts.side_by_side("table-3", title, rows, columns, note=_origin(shown), runs=shown)


def peaks(evidence: Evidence) -> Table:
    """Peaks of disk, CPU, memory and network at batch 20, beside the untitled report's."""
    sides = {
        f"{mode}, {how}": evidence.first(group, strategy=strategy)
        for mode, strategy in MODES.items()
        for how, group in (("sparse", "resources"), ("dense", "dense"))
        if evidence.find(group, strategy=strategy)
    }
    if not sides:
        raise evidence.lacking("resources")
    rows = []
    for position, (what, said) in enumerate(PEAKS.items()):
        row: dict[str, object] = {"what": what, "said_sync": said[0], "said_async": said[1]}
        for side, run in sides.items():
            row[side] = _peak_values(run)[position]
        rows.append(row)
    columns = [Column(name="what", label="node 0, batch 20")]
    columns += [Column(name=side, label=f"{side}, here", form=",.1f") for side in sides]
    columns += [
        Column(name=f"said_{mode}", label=f"{mode}, untitled report", form=",.0f", published=True)
        for mode in MODES
    ]
    note = "The untitled report moves the dense model. Memory is of the machine's. "
    note += _origin(list(sides.values()))
    title = "Peaks of one node (the untitled report, table 3)"
    return charts.side_by_side("peaks", title, rows, columns, note=note, runs=list(sides.values()))


def error_over(axis: Column, name: str, group: str, evidence: Evidence) -> Figure:
    """Test error over steps or time."""
    runs = {mode: evidence.first(group, strategy=each) for mode, each in MODES.items()}
    frames = []
    for mode, run in runs.items():
        line = curves.metric(run, "accuracy")
        frames.append(
            line.with_columns(
                polars.lit(mode).alias("run"),
                error=1 - col("accuracy"),
                progress=col("progress").cast(polars.Float64),
            ).select("run", "time_s", "progress", "error")
        )
    batch = 1 if group == "steps" else 100
    title = f"Test error over {axis.label}, batch {batch} (00{2 if batch == 1 else 3})"
    return charts.figure(
        name,
        title,
        charts.appended(frames),
        [Column(name="run", label="run"), axis, ERROR],
        lambda frame: drawing.lines(frame, axis, ERROR, by="run", strategies=MODES),
        caption=medians.first_of(evidence.num_seeds(group)) + _origin(list(runs.values())),
        runs=runs,
    )


def used(name: str, what: str, measure: str, evidence: Evidence) -> Figure:
    """Resources over time."""
    runs = {mode: evidence.first("resources", strategy=each) for mode, each in MODES.items()}
    return charts.usage(name, f"{what} over time, batch 20", runs, measure)


def scaling(evidence: Evidence) -> Figure:
    """Rows per second over workers."""
    series = {mode: {"strategy": each} for mode, each in MODES.items()}
    return charts.over_tag(
        "workers",
        "Rows per second over workers, batch 100 (Jin et al.: speed-ups scale poorly)",
        evidence,
        "workers",
        x=WORKERS,
        y=RATE,
        measure=lambda run: run.result.samples_per_s,
        series=series,
    )


def _bottleneck_values(run: StoredRun) -> tuple[float | None, ...]:
    usage = run.result.nodes[0]
    amounts = (
        usage.net_received_bytes,
        usage.net_sent_bytes,
        usage.disk_read_bytes,
        usage.disk_written_bytes,
    )
    return (
        usage.cpu_percent_mean,
        *(None if amount is None else amount / 1e6 for amount in amounts),
    )


def _peak_values(run: StoredRun) -> tuple[float | None, ...]:
    usage = run.result.nodes[0]
    lines = curves.usage(run).filter(col("node") == usage.name)
    total = ((run.environment.get("memory") or {}) or {}).get("total_bytes")
    memory = usage.memory_peak_bytes
    return (
        _most(lines, ("disk_read_bytes_per_s", "disk_written_bytes_per_s"), 1e-3),
        usage.cpu_node_percent_peak,
        None if memory is None or not total else 100 * memory / total,
        _most(lines, ("net_sent_bytes_per_s", "net_received_bytes_per_s"), 1e-6),
    )


def _most(lines: polars.DataFrame, columns: tuple[str, ...], scale: float) -> float | None:
    there = [name for name in columns if name in lines.columns]
    if not there or lines.is_empty():
        return None
    most = lines.select(polars.sum_horizontal(there)).to_series().max()
    return most * scale if isinstance(most, (int, float)) else None


def _with_evaluations(run: StoredRun) -> float | None:
    spent_s = train_s(run)
    return None if spent_s is None else spent_s + (run.result.evaluation_s or 0.0)


def _origin(runs: list[StoredRun]) -> str:
    return _GENERATED if any(map(is_generated, runs)) else ""


def _error_figure(axis: Column, name: str, group: str) -> Callable[[Evidence], Figure]:
    return lambda evidence: error_over(axis, name, group, evidence)


STUDY: Final = Study(
    tables={
        "table-1": time_and_accuracy,
        "table-2": bottleneck,
        "table-3": batch_times,
        "operators": operators,
        "peaks": peaks,
        STEP_PARTS: step_parts,
    },
    figures={
        "error-over-steps": _error_figure(STEPS, "error-over-steps", "steps"),
        "error-over-time": _error_figure(charts.TIME, "error-over-time", "steps"),
        "error-over-steps-100": _error_figure(STEPS, "error-over-steps-100", "rows"),
        "error-over-time-100": _error_figure(charts.TIME, "error-over-time-100", "rows"),
        "profile": profile,
        "cpu": lambda evidence: used("cpu", "CPU", "cpu_percent", evidence),
        "memory": lambda evidence: used("memory", "Memory", "memory_bytes", evidence),
        "network-sent": lambda evidence: used(
            "network-sent", "Network, sent,", "net_sent_bytes_per_s", evidence
        ),
        "network-received": lambda evidence: used(
            "network-received", "Network, received,", "net_received_bytes_per_s", evidence
        ),
        "disk-read": lambda evidence: used(
            "disk-read", "Disk, read,", "disk_read_bytes_per_s", evidence
        ),
        "disk-written": lambda evidence: used(
            "disk-written", "Disk, written,", "disk_written_bytes_per_s", evidence
        ),
        "workers": scaling,
    },
    claims=criteo_claims.CLAIMS,
    conditions=criteo_claims.CONDITIONS,
)
