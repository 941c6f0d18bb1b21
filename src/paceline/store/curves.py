"""A run over time, as lines that can be drawn: loss, accuracy, rates, what each node used.

Every function gives a frame with few rows, however long the run was: a line on a page has some
hundred pixels, and what lies between two of them nobody sees.
"""

from __future__ import annotations

from typing import Final

import polars
from polars import col

from paceline.store.stored import StoredRun

MOST_POINTS: Final = 400
# A smoothed line is the mean over this part of the run around each point.
_SMOOTHING: Final = 0.05

_COUNTERS: Final = (
    "net_sent_bytes",
    "net_received_bytes",
    "packets_sent",
    "packets_received",
    "disk_read_bytes",
    "disk_written_bytes",
)


def loss(run: StoredRun, most_points: int = MOST_POINTS) -> polars.DataFrame:
    """Training loss of all workers: time_s, samples, steps, loss, smoothed.

    `steps` are global steps; where nothing is shared, steps of all workers together.
    """
    rows = _binned(run.steps, most_points)
    if rows.is_empty():
        return polars.DataFrame(schema=dict.fromkeys(_LOSS_COLUMNS, polars.Float64))
    finite = col("loss_mean").is_finite()
    losses = (
        rows.filter(finite)
        .group_by("bin")
        .agg(loss=(col("loss_mean") * col("count")).sum() / col("count").sum())
    )
    joined = _totals(rows).join(losses, on="bin").sort("bin")
    window = 1 + 2 * round(_SMOOTHING * len(joined) / 2)
    smoothed = col("loss").rolling_mean(window, center=True, min_samples=1)
    return joined.with_columns(smoothed=smoothed).select(_LOSS_COLUMNS)


def rate(run: StoredRun, most_points: int = MOST_POINTS) -> polars.DataFrame:
    """Speed over time, all workers together: time_s, steps_per_s, samples_per_s."""
    # Fewer points than a row each: a rate over a tenth of a second is mostly noise.
    rows = _binned(run.steps, min(most_points, max(2, len(run.steps) // 6)))
    if rows.is_empty():
        return polars.DataFrame(schema=dict.fromkeys(_RATE_COLUMNS, polars.Float64))
    totals = _totals(rows)
    elapsed = col("time_s").diff().fill_null(col("time_s"))
    return (
        totals.with_columns(
            steps_per_s=col("steps").diff().fill_null(col("steps")) / elapsed,
            samples_per_s=col("samples").diff().fill_null(col("samples")) / elapsed,
        )
        .filter(elapsed > 0)
        .select(_RATE_COLUMNS)
    )


def metric(run: StoredRun, name: str = "accuracy") -> polars.DataFrame:
    """A metric on the test rows: time_s, progress and the metric; empty where there is none."""
    rows = run.evaluations
    if name not in rows.columns:
        return polars.DataFrame(schema=dict.fromkeys(("time_s", "progress", name), polars.Float64))
    known = rows.select("time_s", "progress", col(name).cast(polars.Float64)).drop_nulls()
    return known.filter(col(name).is_finite()).sort("time_s")


def exchanged(run: StoredRun, most_points: int = MOST_POINTS) -> polars.DataFrame:
    """What all workers sent and received over time, as their strategy counts it.

    Columns time_s, sent_bytes_per_s, received_bytes_per_s; empty where nothing was counted.
    """
    rows = run.steps
    if any(each not in rows.columns or rows[each].is_null().all() for each in _EXCHANGED):
        return polars.DataFrame(schema=dict.fromkeys(_EXCHANGED_COLUMNS, polars.Float64))
    binned = _binned(rows, min(most_points, max(2, len(rows) // 6)))
    totals = _totals(binned, _EXCHANGED)
    elapsed = col("time_s").diff().fill_null(col("time_s"))
    rates = {f"{key}_per_s": col(key).diff().fill_null(col(key)) / elapsed for key in _EXCHANGED}
    return totals.with_columns(**rates).filter(elapsed > 0).select(_EXCHANGED_COLUMNS)


def usage(run: StoredRun, most_points: int = MOST_POINTS) -> polars.DataFrame:
    """What each node used while training, over time.

    Columns node, time_s, cpu_percent, memory_bytes, device_busy_percent where compute was replayed,
    and of each counter that was kept its growth a second, as in net_sent_bytes_per_s.
    """
    rows = run.nodes
    if rows.is_empty():
        return polars.DataFrame(
            schema={"node": polars.String} | dict.fromkeys(_USAGE_COLUMNS, polars.Float64)
        )
    trained = _trained(rows)
    values = [name for name in trained.columns if name not in _NO_VALUES]
    width_s = _width_s(trained, most_points)
    return (
        trained.with_columns(
            bin=polars.when("begins").then(-1.0).otherwise((col("time_s") / width_s).floor())
        )
        .group_by("node", "bin", maintain_order=True)
        .agg(col("time_s").max(), *(col(name).mean() for name in values))
        .drop("bin")
        .with_columns(cpu_percent=_cpu_percent(run))
    )


def _trained(rows: polars.DataFrame) -> polars.DataFrame:
    """Samples of nodes while they trained, and of the moment at which they began to.

    Of that moment only memory is told: the rest is of what was before.
    """
    elapsed = col("time_s").diff().over("node")
    values = {
        f"{name}_per_s": col(name).cast(polars.Float64).diff().over("node") / elapsed
        for name in _COUNTERS
        if name in rows.columns
    }
    for name in ("cpu_percent", "device_busy_percent"):
        if name in rows.columns:
            values[name] = col(name).cast(polars.Float64)
    # Earlier versions wrote 0 where seats had left, and had samples of training and more.
    memory = col("memory_bytes").cast(polars.Float64)
    memory = polars.when(memory > 0).then(memory).forward_fill().over("node")
    begins = (col("phase") == "starting") & (col("phase").shift(-1).over("node") == "training")
    # The clock stands still while others evaluate: such samples lie above one another.
    is_of_training = col("phase").is_in(["training", "mixed"]) & (elapsed.fill_null(1.0) > 0)
    return rows.select(
        "node",
        "time_s",
        *(polars.when(~begins).then(each).alias(name) for name, each in values.items()),
        memory_bytes=memory,
        begins=begins,
        is_kept=begins | is_of_training,
    ).filter("is_kept")


def _cpu_percent(run: StoredRun) -> polars.Expr:
    """Tell of a training too short for a sample of CPU what its seats counted, at its end."""
    means = {node.name: node.cpu_percent_mean for node in run.result.nodes}
    counted = col("node").replace_strict(means, default=None, return_dtype=polars.Float64)
    is_unknown = col("cpu_percent").is_null().all().over("node")
    is_last = col("time_s") == col("time_s").max().over("node")
    return polars.when(is_unknown & is_last).then(counted).otherwise("cpu_percent")


_LOSS_COLUMNS: Final = ("time_s", "samples", "steps", "loss", "smoothed")
_EXCHANGED: Final = ("sent_bytes", "received_bytes")
_EXCHANGED_COLUMNS: Final = ("time_s", *(f"{each}_per_s" for each in _EXCHANGED))
_RATE_COLUMNS: Final = ("time_s", "steps_per_s", "samples_per_s")
_USAGE_COLUMNS: Final = ("time_s", "cpu_percent", "memory_bytes")
_NO_VALUES: Final = ("node", "time_s", "begins", "is_kept")


def _binned(steps: polars.DataFrame, most_points: int) -> polars.DataFrame:
    """Give every row the number of the stretch of time in which it ended."""
    if steps.is_empty():
        return steps
    return steps.with_columns(bin=(col("time_s") / _width_s(steps, most_points)).floor())


def _width_s(rows: polars.DataFrame, most_points: int) -> float:
    """How long a stretch is; not shorter than a row, or workers would not be in it together."""
    last_s = rows["time_s"].max()
    assert isinstance(last_s, (float, type(None)))
    return max((last_s or 0.0) / most_points * 1.0001, 0.1, 1e-9)


def _totals(rows: polars.DataFrame, counters: tuple[str, ...] = ()) -> polars.DataFrame:
    """How far all workers together were at the end of each stretch.

    Columns bin, time_s, samples, steps, and any further counters.
    """
    summed = ("samples", "worker_steps", *counters)
    by_seat = rows.group_by("bin", "seat").agg(
        col(*summed, "global_steps").cast(polars.Float64).max()
    )
    every = by_seat.select("bin").unique().join(by_seat.select("seat").unique(), how="cross")
    known = (
        every.join(by_seat, on=["bin", "seat"], how="left")
        .sort("bin")
        .with_columns(col(*summed).forward_fill().over("seat").fill_null(0))
    )
    sums = known.group_by("bin", maintain_order=True).agg(
        col(*summed).sum(), col("global_steps").max()
    )
    times = rows.group_by("bin").agg(col("time_s").max())
    return (
        sums.join(times, on="bin")
        .sort("bin")
        .with_columns(steps=polars.coalesce(col("global_steps").cum_max(), col("worker_steps")))
        .select("bin", "time_s", "samples", "steps", *counters)
    )
