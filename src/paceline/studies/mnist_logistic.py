"""`mnist-logistic`: the tables and figures of Bhat et al., section 3, and Liu et al., part 1."""

from __future__ import annotations

from typing import Any, Final

from paceline.exhibits.values import Column, Figure, Table
from paceline.store.stored import StoredRun
from paceline.studies import charts, mnist_claims, mnist_conditions
from paceline.studies.base import Study
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.graph import dataflow
from paceline.studies.measures import median, per_s
from paceline.studies.mnist_workers import (
    TIME_PER_WORKER,
    WORKERS,
    by_workers,
    time_per_worker,
)

MODES: Final = {"async": "ps-async", "sync": "ps-sync"}
BATCHES: Final = (5, 10, 20, 30, 40)

# Bhat et al., table 1: 3 nodes, 10,000 steps a worker (inferred); (async, sync).
TABLE_1: Final = {
    "node 0 CPU %": (42, 38),
    "node 1 CPU %": (33, 30),
    "node 0 memory MB": (634, 772),
    "node 1 memory MB": (456, 466),
    "node 0 received KB/s": (3315, 3082),
    "node 0 sent KB/s": (6251, 5700),
    "node 1 received KB/s": (3173, 2930),
    "node 1 sent KB/s": (1698, 1560),
}
# Liu et al.: chief node, 3 nodes, 20 epochs; by batch 5, 10, 20, 30, 40. Its learning rate is
# inferred.
BATCH_TABLES: Final[dict[str, dict[str, tuple[float, ...]]]] = {
    "async": {
        "CPU %": (6.93, 6.52, 6.76, 6.89, 6.67),
        "send MB/s": (31.944, 31.310, 30.352, 28.383, 28.732),
        "recv MB/s": (31.354, 31.091, 29.644, 28.183, 28.493),
        "memory MB": (509.422, 498.379, 505.715, 503.019, 502.894),
        "accuracy %": (92.24, 92.41, 92.40, 92.28, 92.12),
    },
    "sync": {
        "CPU %": (8.81, 8.75, 8.42, 7.24, 7.03),
        "send MB/s": (25.468, 24.901, 24.532, 21.487, 20.668),
        "recv MB/s": (25.891, 25.331, 24.049, 20.234, 20.318),
        "memory MB": (541.327, 540.553, 539.308, 533.127, 535.894),
        "accuracy %": (92.39, 92.54, 92.31, 92.24, 92.23),
    },
}
_SHARED: Final = "All seats share node 0 here: its figures are of all of them, and node 1 has none."


def table_1(evidence: Evidence) -> Table:
    """Resources of node 0 and node 1, beside Bhat et al.'s."""
    runs = {mode: evidence.need("resources", strategy=name) for mode, name in MODES.items()}
    rows = []
    for what, said in TABLE_1.items():
        ours = {mode: _resource(what, each) for mode, each in runs.items()}
        rows.append(
            {"what": what, "said_async": said[0], "said_sync": said[1], **_prefixed("ours", ours)}
        )
    columns = [
        Column(name="what", label="3 nodes, batch 75"),
        Column(name="ours_async", label="async, here", form=",.0f"),
        Column(name="ours_sync", label="sync, here", form=",.0f"),
        Column(name="said_async", label="async, Bhat et al.", form=",.0f", published=True),
        Column(name="said_sync", label="sync, Bhat et al.", form=",.0f", published=True),
    ]
    all_runs = [run for each in runs.values() for run in each]
    note = (
        "Means over the run, of memory the peak; CPU is of one core. Bhat et al.'s 10,000 steps "
        "are taken as each worker's (inferred). "
    ) + ("" if _has_nodes(all_runs[0]) else _SHARED)
    title = "CPU, memory and network of nodes (Bhat et al., table 1)"
    return charts.side_by_side("table-1", title, rows, columns, note=note, runs=all_runs)


def batch_table(mode: str, evidence: Evidence) -> Table:
    """What node 0 used at each batch, beside Liu et al.'s."""
    rows = []
    all_runs: list[StoredRun] = []
    for position, batch in enumerate(BATCHES):
        runs = evidence.find("batch", strategy=MODES[mode], batch=batch)
        all_runs += runs
        said = {what: values[position] for what, values in BATCH_TABLES[mode].items()}
        ours = {what: _at_batch(what, runs) for what in said}
        rows.append({"batch": batch, **_prefixed("ours", ours), **_prefixed("said", said)})
    if not all_runs:
        raise evidence.lacking("batch", strategy=MODES[mode])
    columns = [Column(name="batch", label="batch", form="d")]
    for what in BATCH_TABLES[mode]:
        columns.append(Column(name=f"ours_{what}", label=f"{what}, here", form=",.2f"))
        columns.append(
            Column(name=f"said_{what}", label=f"{what}, Liu et al.", form=",.2f", published=True)
        )
    note = "The learning rate is 0.01, as Bhat et al.'s (inferred). " + (
        "" if _has_nodes(all_runs[0]) else _SHARED
    )
    title = f"Chief node by batch, {mode} (Liu et al.)"
    return charts.side_by_side(f"batch-{mode}", title, rows, columns, note=note, runs=all_runs)


def graph(evidence: Evidence) -> Figure:
    """The data-flow graph of the model (Bhat et al., figure 1)."""
    title = "Data-flow graph of the model (Bhat et al., fig. 1)"
    return dataflow("dataflow-graph", title, evidence.first("single"))


def loss_single(evidence: Evidence) -> Figure:
    """Loss over samples on one node (Bhat et al., figure 2)."""
    title = "Loss over samples, single node, batch 75 (Bhat et al., fig. 2)"
    return charts.loss("loss-single", title, {"single": evidence.first("single")}, charts.SAMPLES)


def loss_over_samples(evidence: Evidence) -> Figure:
    """Loss over samples, both modes together (Bhat et al., figure 4)."""
    title = "Loss over samples, 3 workers, batch 75 (Bhat et al., fig. 4)"
    return charts.loss("loss-over-samples", title, _pair(evidence), charts.SAMPLES)


def loss_over_steps(evidence: Evidence) -> Figure:
    """Loss over steps, raw and smoothed (Liu et al.)."""
    title = "Loss over global steps, 3 workers, batch 10, raw and smoothed (Liu et al.)"
    return charts.loss("loss-over-steps", title, _at(evidence, 10), charts.STEPS)


def steps_per_second(evidence: Evidence) -> Figure:
    """Global steps per second over steps (Liu et al.)."""
    title = "Global steps per second, 3 workers, batch 10 (Liu et al.)"
    return charts.rate("steps-per-second", title, _at(evidence, 10))


def used(name: str, what: str, measure: str, evidence: Evidence) -> Figure:
    """CPU, memory or network of each node over time (Liu et al.)."""
    runs = {mode: evidence.first("resources", strategy=each) for mode, each in MODES.items()}
    return charts.usage(name, f"{what} of each node over time (Liu et al.)", runs, measure)


def loss_batch_40(evidence: Evidence) -> Figure:
    """Loss at batch 40 (Liu et al.)."""
    title = "Loss over global steps, 3 workers, batch 40 (Liu et al.)"
    return charts.loss("loss-batch-40", title, _at(evidence, 40), charts.STEPS)


def time_over_batch(evidence: Evidence) -> Figure:
    """Time for the same epochs at each batch (claim L18)."""
    return charts.over_tag(
        "time-over-batch",
        "Time for the same epochs over batch, 3 workers (claim L18)",
        evidence,
        "batch",
        x=Column(name="batch", label="batch per worker", form="d"),
        y=Column(name="train_s", label="training time", unit="s", form=".2f"),
        measure=lambda run: run.result.train_s,
        series={mode: {"strategy": name} for mode, name in MODES.items()},
    )


def _pair(evidence: Evidence) -> dict[str, StoredRun]:
    return {
        mode: evidence.first("pair", strategy=name, num_workers=3) for mode, name in MODES.items()
    }


def _at(evidence: Evidence, batch: int) -> dict[str, StoredRun]:
    return {
        mode: evidence.first("batch", strategy=name, batch=batch) for mode, name in MODES.items()
    }


def _has_nodes(run: StoredRun) -> bool:
    return len(run.result.nodes) > 1


def _prefixed(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}_{key}": value for key, value in values.items()}


def _resource(what: str, runs: list[StoredRun]) -> float | None:
    """One line of table 1; None where it was not measured."""
    index = 0 if "node 0" in what else 1
    values = []
    for run in runs:
        if not _has_nodes(run) and index:
            return None
        usage = run.result.nodes[index]
        if "CPU" in what:
            values.append(usage.cpu_percent_mean)
        elif "memory" in what:
            values.append(_scaled(usage.memory_peak_bytes, 1e-6))
        else:
            sent, received = usage.net_sent_bytes, usage.net_received_bytes
            values.append(_scaled(per_s(sent if "sent" in what else received, run), 1e-3))
    return _median_or_none(values)


def _at_batch(what: str, runs: list[StoredRun]) -> float | None:
    values = []
    for run in runs:
        usage = run.result.nodes[0]
        values.append(
            {
                "CPU %": usage.cpu_node_percent_mean,
                "send MB/s": _scaled(per_s(usage.net_sent_bytes, run), 1e-6),
                "recv MB/s": _scaled(per_s(usage.net_received_bytes, run), 1e-6),
                "memory MB": _scaled(usage.memory_mean_bytes, 1e-6),
                "accuracy %": _scaled(run.result.test_accuracy, 100),
            }[what]
        )
    return _median_or_none(values)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _median_or_none(values: list[float | None]) -> float | None:
    try:
        return median(values)
    except Untestable:
        return None


STUDY: Final = Study(
    tables={
        "table-1": table_1,
        WORKERS: by_workers,
        "batch-async": lambda evidence: batch_table("async", evidence),
        "batch-sync": lambda evidence: batch_table("sync", evidence),
    },
    figures={
        "dataflow-graph": graph,
        "loss-single": loss_single,
        TIME_PER_WORKER: time_per_worker,
        "loss-over-samples": loss_over_samples,
        "loss-over-steps": loss_over_steps,
        "steps-per-second": steps_per_second,
        "cpu": lambda evidence: used("cpu", "CPU", "cpu_percent", evidence),
        "memory": lambda evidence: used("memory", "Memory", "memory_bytes", evidence),
        "network-sent": lambda evidence: used(
            "network-sent", "Network, sent,", "net_sent_bytes_per_s", evidence
        ),
        "network-received": lambda evidence: used(
            "network-received", "Network, received,", "net_received_bytes_per_s", evidence
        ),
        "loss-batch-40": loss_batch_40,
        "time-over-batch": time_over_batch,
    },
    claims=mnist_claims.CLAIMS,
    conditions=mnist_conditions.CONDITIONS,
)
