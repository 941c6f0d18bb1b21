"""`lenet-scaling`: the tables, figures and claims of report 000, section 4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from paceline.exhibits import Column, Figure, Table
from paceline.stored import StoredRun
from paceline.studies import charts, measures
from paceline.studies.base import Judged, Study, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import known, median, node, node_bytes, of, per_s, spread

# Report 000, table 2: (1 node), (2 nodes: node 0, node 1), (3 nodes: node 0, node 1).
TABLE_2: Final = {
    "mean CPU (%)": ("60", "58, 54", "57, 56"),
    "peak memory (MB)": ("1098", "1052, 710", "1034, 680"),
    "mean received (KB/s)": ("21", "4800, 4600", "5826, 5828"),
    "mean sent (KB/s)": ("18", "4600, 4550", "5802, 5830"),
}
# Report 000, table 3: 3 nodes, 25 epochs; by batch: (node 0, node 1).
TABLE_3: Final = {
    32: ("47, 47", "885, 675"),
    64: ("56, 56", "895, 685"),
    128: ("63, 63", "1004, 769"),
    256: ("72, 72", "1066, 785"),
    512: ("79, 79", "1195, 894"),
    1024: ("83, 83", "1203, 948"),
}
BATCH: Final = Column(name="batch", label="batch of a worker", form="d")
WORKERS: Final = Column(name="num_workers", label="nodes", form="d")
TIME: Final = Column(name="train_s", label="training time", unit="s", form=".1f")
ACCURACY: Final = Column(name="accuracy", label="test accuracy", unit="%", form=".2f", scale=100)


def table_2(evidence: Evidence) -> Table:
    """Resources by the number of nodes, beside report 000's."""
    sides = {
        "1 node": evidence.need("one"),
        "2 nodes": evidence.need("nodes", strategy="ring", num_workers=2),
        "3 nodes": evidence.need("nodes", strategy="ring", num_workers=3),
    }
    rows = [
        {
            "what": what,
            **{f"ours_{side}": _nodes_text(what, runs) for side, runs in sides.items()},
            **{f"said_{side}": text for side, text in zip(sides, said, strict=True)},
        }
        for what, said in TABLE_2.items()
    ]
    columns = [Column(name="what", label="batch 64, ring (node 0, node 1)")]
    columns += [Column(name=f"ours_{side}", label=f"{side}, here") for side in sides]
    columns += [Column(name=f"said_{side}", label=f"{side}, 000", published=True) for side in sides]
    return charts.side_by_side(
        "table-2",
        "Resources by cluster size (000, table 2)",
        rows,
        columns,
        note=_note(sides["3 nodes"]),
        runs=[run for runs in sides.values() for run in runs],
    )


def table_3(evidence: Evidence) -> Table:
    """CPU and memory by batch, beside report 000's."""
    rows, shown = [], []
    for batch in evidence.values("batch", "batch"):
        runs = evidence.need("batch", strategy="ring", batch=batch)
        shown += runs
        said = TABLE_3.get(batch, (None, None))
        rows.append(
            {
                "batch": batch,
                "cpu": _nodes_text("mean CPU (%)", runs),
                "memory": _nodes_text("peak memory (MB)", runs),
                "said_cpu": said[0],
                "said_memory": said[1],
            }
        )
    if not rows:
        evidence.need("batch")
    columns = [
        Column(name="batch", label="batch", form="d"),
        Column(name="cpu", label="mean CPU %, here"),
        Column(name="memory", label="peak memory MB, here"),
        Column(name="said_cpu", label="mean CPU %, 000", published=True),
        Column(name="said_memory", label="peak memory MB, 000", published=True),
    ]
    title = "CPU and memory by batch, 3 nodes, ring (node 0, node 1; 000, table 3)"
    return charts.side_by_side("table-3", title, rows, columns, note=_note(shown), runs=shown)


def loss_nodes(evidence: Evidence) -> Figure:
    """Loss over epochs for one, two and three nodes, learning rate as it is and scaled."""
    runs = {"1 node": evidence.first("one")}
    for count in evidence.values("nodes", "num_workers"):
        runs[f"{count} nodes"] = evidence.first("nodes", strategy="ring", num_workers=count)
    for count in evidence.values("scaled", "num_workers"):
        runs[f"{count} nodes, lr times {count}"] = evidence.first("scaled", num_workers=count)
    title = "Loss over epochs, 1 to 3 nodes, batch 64, ring (000, fig. 5)"
    return charts.loss("loss-nodes", title, runs, charts.EPOCHS, epochs=_epochs(runs))


def loss_batch(evidence: Evidence) -> Figure:
    """Loss over epochs for each batch."""
    runs = {
        f"batch {batch}": evidence.first("batch", strategy="ring", batch=batch)
        for batch in evidence.values("batch", "batch")
    }
    if not runs:
        evidence.need("batch")
    title = "Loss over epochs by batch, 3 nodes, ring (000, fig. 6)"
    return charts.loss("loss-batch", title, runs, charts.EPOCHS, epochs=_epochs(runs))


def batch_figure(name: str, title: str, column: Column, evidence: Evidence) -> Figure:
    """Time or accuracy over batch."""
    series = {each: {"strategy": each} for each in evidence.values("batch", "strategy")}
    full = f"{title} by batch, 3 nodes (000, fig. 7)"
    return charts.over_tag(
        name,
        full,
        evidence,
        "batch",
        x=BATCH,
        y=column,
        measure=_measure(column),
        series=series,
    )


def nodes_figure(name: str, title: str, column: Column, evidence: Evidence) -> Figure:
    """Time or accuracy over the number of nodes."""
    rows: list[dict[str, Any]] = []
    shown: dict[str, StoredRun] = {}
    strategies = evidence.values("nodes", "strategy")
    for strategy in strategies:
        for count in (1, *evidence.values("nodes", "num_workers")):
            runs = (
                evidence.need("one")
                if count == 1
                else evidence.need("nodes", strategy=strategy, num_workers=count)
            )
            shown[f"{strategy} {count}"] = runs[0]
            value = median(of(runs, _measure(column)))
            rows.append({"run": strategy, "num_workers": count, column.name: value})
    by = {each: each for each in strategies}
    full = f"{title} by cluster size, batch 64 (000, fig. 8)"
    return charts.over(name, full, rows, WORKERS, column, by=by, runs=shown)


def network_batch(evidence: Evidence) -> Figure:
    """Network of node 0 over time for each batch."""
    runs = {
        f"batch {batch}": evidence.first("batch", strategy="ring", batch=batch)
        for batch in evidence.values("batch", "batch")
        if batch in TABLE_3
    }
    title = "Network of node 0 over time by batch, sent (000, fig. 9)"
    return charts.usage("network-batch", title, runs, "net_sent_bytes_per_s", nodes=("node0",))


def n1(evidence: Evidence) -> Judged:
    one = evidence.need("one")
    three = evidence.need("nodes", strategy="ring", num_workers=3)
    scaled = evidence.need("scaled", num_workers=3)
    place = measures.reach([*one, *three, *scaled], "samples") / 2
    losses = [
        of(runs, lambda run: measures.loss_at(run, "samples", place))
        for runs in (one, three, scaled)
    ]
    alone, cluster, closed = (median(each) for each in losses)
    holds = alone < cluster and abs(closed - alone) < (cluster - alone) / 2
    measured = (
        f"half-way the loss is {spread(losses[0])} on one node, {spread(losses[1])} on three, "
        f"{spread(losses[2])} on three with the learning rate times 3"
    )
    return judged(holds, measured, "asked for: the gap more than halved")


def n2(evidence: Evidence) -> Judged:
    batches = evidence.values("batch", "batch")
    runs = [evidence.need("batch", strategy="ring", batch=each) for each in batches]
    cpus = [median(of(each, lambda run: run.result.nodes[0].cpu_percent_mean)) for each in runs]
    kept = [median(of(each, _peak_memory)) / 1e6 for each in runs]
    measured = (
        f"from batch {batches[0]} to {batches[-1]} CPU goes from {cpus[0]:.0f} to {cpus[-1]:.0f} "
        f"%, peak memory from {kept[0]:,.0f} to {kept[-1]:,.0f} MB"
    )
    return judged(cpus[-1] > cpus[0] and kept[-1] > kept[0], measured)


def n3(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for strategy in evidence.values("nodes", "strategy"):
        runs = evidence.need("nodes", strategy=strategy, num_workers=3)
        first, second = (
            median(known(node(run, index).memory_peak_bytes, "memory") / 1e6 for run in runs)
            for index in (0, 1)
        )
        holds.append(first > second)
        texts.append(f"{strategy}: {first:,.0f} MB on node 0, {second:,.0f} MB on node 1")
    reason = "in a ring no node keeps more than another; with a server node 0 holds it too"
    return judged(all(holds), "; ".join(texts), reason)


def n4(evidence: Evidence) -> Judged:
    batches = evidence.values("batch", "batch")
    runs = [evidence.need("batch", strategy="ring", batch=each) for each in batches]
    accuracies = [100 * median(of(each, lambda run: run.result.test_accuracy)) for each in runs]
    times = [median(of(each, lambda run: run.result.train_s)) for each in runs]
    best = batches[accuracies.index(max(accuracies))]
    measured = (
        f"batch {batches[0]}: {accuracies[0]:.2f} % in {times[0]:.1f} s; batch {batches[-1]}: "
        f"{accuracies[-1]:.2f} % in {times[-1]:.1f} s; the most accurate is batch {best}"
    )
    holds = accuracies[0] > accuracies[-1] and times[0] > times[-1]
    return judged(holds, measured)


def n5(evidence: Evidence) -> Judged:
    batches = evidence.values("batch", "batch")
    runs = [evidence.need("batch", strategy="ring", batch=each)[0] for each in batches]
    totals = [known(measures.exchanged_bytes(run), "traffic") / 1e6 for run in runs]
    rates = [known(per_s(total, run), "time") for total, run in zip(totals, runs, strict=True)]
    balance = max(_imbalance(run) for run in runs)
    parts = [
        f"the total goes from {totals[0]:,.1f} MB at batch {batches[0]} to {totals[-1]:,.1f} MB",
        f"the rate from {rates[0]:,.1f} to {rates[-1]:,.1f} MB/s",
        f"sent and received differ by {100 * balance:.1f} % at most",
    ]
    is_steady = 0.5 < rates[-1] / rates[0] < 2
    try:
        first, second = (
            known(node_bytes(node(runs[0], index)), "the traffic of nodes") for index in (0, 1)
        )
        parts.append(f"node 0 moves {first / second:.2f} times node 1's bytes")
        holds = totals[-1] < totals[0] and is_steady and balance < 0.05 and first > second
    except Untestable:
        parts.append("whether node 0 moves more cannot be told where all seats share it")
        holds = totals[-1] < totals[0] and is_steady and balance < 0.05
    reason = "" if is_steady else "a larger batch computes longer between exchanges"
    return judged(holds, "; ".join(parts), reason)


def _imbalance(run: StoredRun) -> float:
    sent = sum(each.sent_bytes or 0 for each in run.result.workers)
    received = sum(each.received_bytes or 0 for each in run.result.workers)
    return abs(sent - received) / max(sent, received, 1)


def _peak_memory(run: StoredRun) -> float | None:
    return run.result.nodes[0].memory_peak_bytes


def _measure(column: Column) -> Any:
    if column is TIME:
        return lambda run: run.result.train_s
    return lambda run: run.result.test_accuracy


def _epochs(runs: dict[str, StoredRun]) -> int:
    return int(next(iter(runs.values())).spec.get("epochs") or 1)


def _nodes_text(what: str, runs: Sequence[StoredRun]) -> str:
    """Write node 0's and node 1's figures, as the report has them."""
    texts = []
    for index in range(min(2, len(runs[0].result.nodes))):
        values = [_value(what, run, index) for run in runs]
        known_values = [each for each in values if each is not None]
        texts.append(f"{median(known_values):,.0f}" if known_values else "-")
    return ", ".join(texts)


def _value(what: str, run: StoredRun, index: int) -> float | None:
    usage = run.result.nodes[index]
    if "CPU" in what:
        return usage.cpu_node_percent_mean
    if "memory" in what:
        return None if usage.memory_peak_bytes is None else usage.memory_peak_bytes / 1e6
    amount = usage.net_sent_bytes if "sent" in what else usage.net_received_bytes
    rate = per_s(amount, run)
    return None if rate is None else rate / 1e3


def _note(runs: Sequence[StoredRun]) -> str:
    shared = all(len(run.result.nodes) == 1 for run in runs if run.result.num_workers > 1)
    told = "CPU is of all cores a node may use. "
    return told + ("All seats share node 0 here: its figures are of all of them." if shared else "")


STUDY: Final = Study(
    tables={"table-2": table_2, "table-3": table_3},
    figures={
        "loss-nodes": loss_nodes,
        "loss-batch": loss_batch,
        "time-batch": lambda evidence: batch_figure("time-batch", "Time", TIME, evidence),
        "accuracy-batch": lambda evidence: batch_figure(
            "accuracy-batch", "Test accuracy", ACCURACY, evidence
        ),
        "time-nodes": lambda evidence: nodes_figure("time-nodes", "Time", TIME, evidence),
        "accuracy-nodes": lambda evidence: nodes_figure(
            "accuracy-nodes", "Test accuracy", ACCURACY, evidence
        ),
        "network-batch": network_batch,
    },
    claims={"N1": n1, "N2": n2, "N3": n3, "N4": n4, "N5": n5},
)
