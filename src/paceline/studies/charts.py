"""Figures that several studies show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import polars
from polars import col

from paceline.exhibits import drawing
from paceline.exhibits.values import Column, Figure, Table, table_of
from paceline.store import curves
from paceline.store.stored import StoredRun, labels_of
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import median, of

TIME: Final = Column(name="time_s", label="training time", unit="s", form=".2f")
SAMPLES: Final = Column(name="samples", label="samples", form=",.0f")
STEPS: Final = Column(name="steps", label="global steps", form=",.0f")
EPOCHS: Final = Column(name="epochs", label="epochs", form=".2f")
LOSS: Final = Column(name="smoothed", label="training loss, smoothed", form=".4f")
RAW: Final = Column(name="loss", label="training loss", form=".4f")
MEASURES: Final = {
    "cpu_percent": Column(name="cpu_percent", label="CPU", unit="% of a core", form=".1f"),
    "device_busy_percent": Column(
        name="device_busy_percent", label="device busy", unit="% of the time", form=".1f"
    ),
    "memory_bytes": Column(name="memory_bytes", label="memory", unit="MB", form=",.1f", scale=1e-6),
    "net_sent_bytes_per_s": Column(
        name="net_sent_bytes_per_s", label="sent", unit="MB/s", form=",.2f", scale=1e-6
    ),
    "net_received_bytes_per_s": Column(
        name="net_received_bytes_per_s", label="received", unit="MB/s", form=",.2f", scale=1e-6
    ),
    "disk_read_bytes_per_s": Column(
        name="disk_read_bytes_per_s", label="read from disk", unit="KB/s", form=",.1f", scale=1e-3
    ),
    "disk_written_bytes_per_s": Column(
        name="disk_written_bytes_per_s",
        label="written to disk",
        unit="KB/s",
        form=",.1f",
        scale=1e-3,
    ),
    "packets_sent_per_s": Column(
        name="packets_sent_per_s", label="packets sent", unit="a second", form=",.0f"
    ),
    "packets_received_per_s": Column(
        name="packets_received_per_s", label="packets received", unit="a second", form=",.0f"
    ),
}

Runs = Mapping[str, StoredRun]
"""By the label each has in a figure."""


def loss(
    name: str, title: str, runs: Runs, x: Column, *, caption: str = "", epochs: int | None = None
) -> Figure:
    """Draw the loss of each run, raw and smoothed, against time, samples, steps or epochs."""
    frames = []
    for label, run in runs.items():
        line = curves.loss(run)
        if epochs:
            line = line.with_columns(epochs=col("samples") * epochs / run.result.samples)
        frames.append(line.with_columns(polars.lit(label).alias("run")))
    by = strategies(runs)
    return figure(
        name,
        title,
        appended(frames),
        [Column(name="run", label="run"), x, RAW, LOSS],
        lambda frame: drawing.lines(frame, x, LOSS, by="run", strategies=by, faint=RAW),
        caption=caption,
        runs=runs,
    )


def rate(name: str, title: str, runs: Runs) -> Figure:
    """Draw global steps per second over steps."""
    frames = [
        curves.rate(run)
        .with_columns(elapsed_s=col("time_s").diff().fill_null(col("time_s")))
        .with_columns(steps=(col("steps_per_s") * col("elapsed_s")).cum_sum())
        .with_columns(polars.lit(label).alias("run"))
        for label, run in runs.items()
    ]
    y = Column(name="steps_per_s", label="global steps per second", form=",.0f")
    by = strategies(runs)
    return figure(
        name,
        title,
        appended(frames),
        [Column(name="run", label="run"), STEPS, y],
        lambda frame: drawing.lines(frame, STEPS, y, by="run", strategies=by, zero=True),
        runs=runs,
    )


def usage(
    name: str,
    title: str,
    runs: Runs,
    measure: str,
    nodes: Sequence[str] | None = None,
    *,
    caption: str = "",
) -> Figure:
    """Draw what each node used over time, or those asked for, one small chart a run."""
    frames = []
    for label, run in runs.items():
        rows = curves.usage(run)
        if measure not in rows.columns:
            raise Untestable(f"{MEASURES[measure].label} of nodes was not recorded in these runs")
        kept = rows.select("node", "time_s", measure)
        if nodes is not None:
            kept = kept.filter(col("node").is_in(nodes))
        frames.append(kept.with_columns(polars.lit(label).alias("run")))
    frame = appended(frames)
    by = {each: each for each in sorted(frame["node"].unique())}
    y = MEASURES[measure]
    return figure(
        name,
        title,
        frame,
        [Column(name="run", label="run"), Column(name="node", label="node"), TIME, y],
        lambda frame: drawing.lines(
            frame, TIME, y, by="node", strategies=by, panels="run", zero=True
        ),
        caption=caption,
        runs=runs,
    )


def over(
    name: str,
    title: str,
    rows: Sequence[dict[str, Any]],
    x: Column,
    y: Column,
    *,
    by: Mapping[str, str],
    rule: Column | None = None,
    caption: str = "",
    runs: Runs | None = None,
) -> Figure:
    """Draw a measure over a count: batch, workers, link. Rows have `run`, x and y."""
    if not rows:
        raise Untestable("none of the runs it shows is there")
    frame = polars.DataFrame(rows, infer_schema_length=None)
    columns = [Column(name="run", label="run"), x, y, *([rule] if rule else [])]
    return figure(
        name,
        title,
        frame,
        columns,
        lambda frame: drawing.points(frame, x, y, by="run", strategies=by, rule=rule, ordinal=True),
        caption=caption,
        runs=runs or {},
    )


def over_tag(
    name: str,
    title: str,
    evidence: Evidence,
    group: str,
    *,
    x: Column,
    y: Column,
    measure: Callable[[StoredRun], float | None],
    series: Mapping[str, Mapping[str, Any]],
    caption: str = "",
) -> Figure:
    """Draw the median of a measure over a tag, a line for each of `series` (label, tags)."""
    rows, shown, by = [], {}, {}
    for label, tags in series.items():
        for value in evidence.values(group, x.name):
            runs = evidence.find(group, **tags, **{x.name: value})
            found = of(runs, measure)
            if found:
                rows.append({"run": label, x.name: value, y.name: median(found)})
                shown[f"{label} {value}"] = runs[0]
                by[label] = runs[0].result.strategy
    if not rows:
        raise evidence.lacking(group)
    return over(name, title, rows, x, y, by=by, caption=caption, runs=shown)


def appended(frames: Sequence[polars.DataFrame]) -> polars.DataFrame:
    """Put the rows of several runs below one another; raises `Untestable` where there are none."""
    if not frames:
        raise Untestable("none of the runs it shows is there")
    return polars.concat(frames, how="vertical_relaxed")


def figure(
    name: str,
    title: str,
    frame: polars.DataFrame,
    columns: Sequence[Column],
    draw: Any,
    *,
    caption: str = "",
    runs: Runs | None = None,
    labels: tuple[str, ...] = (),
) -> Figure:
    """Make a figure of a frame, with the labels of the runs in it, or others where there are none.

    Raises `Untestable` where nothing would be drawn: an empty chart says nothing of why it is.
    """
    labels = labels or labels_of((runs or {}).values())
    needed = [_is_known(frame, column) for column in columns if column.is_number]
    drawn = frame.filter(*needed) if needed else frame
    if drawn.is_empty():
        raise Untestable("it was not recorded in these runs, or they were too short for it")
    table = Table(name=name, title=title, frame=drawn, columns=tuple(columns), labels=labels)
    return Figure(name=name, title=title, caption=caption, table=table, draw=draw, labels=labels)


def _is_known(frame: polars.DataFrame, column: Column) -> polars.Expr:
    value = col(column.name)
    return value.is_finite() if frame[column.name].dtype.is_float() else value.is_not_null()


def side_by_side(
    name: str,
    title: str,
    rows: Sequence[dict[str, Any]],
    columns: Sequence[Column],
    *,
    note: str = "",
    runs: Sequence[StoredRun] = (),
) -> Table:
    """Make a table in which ours stands beside what was published."""
    return table_of(name, title, rows, columns, note=note, labels=labels_of(runs))


def strategies(runs: Runs) -> dict[str, str]:
    """Say which strategy each label stands for: it decides the colour."""
    return {label: run.result.strategy for label, run in runs.items()}
