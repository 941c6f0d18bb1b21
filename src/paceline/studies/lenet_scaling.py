"""`lenet-scaling`: the tables, figures and claims of Bhat et al., section 4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from paceline.exhibits.values import Column, Figure, Table
from paceline.outcome.results import NodeUsage
from paceline.store.stored import StoredRun
from paceline.studies import charts, measures, medians
from paceline.studies.base import Judged, Study, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import above, known, median, node, node_bytes, of, per_s, spread

# Bhat et al., table 2: (1 node), (2 nodes: node 0, node 1), (3 nodes: node 0, node 1).
TABLE_2: Final = {
    "mean CPU (%)": ("60", "58, 54", "57, 56"),
    "peak memory (MB)": ("1098", "1052, 710", "1034, 680"),
    "mean received (KB/s)": ("21", "4800, 4600", "5826, 5828"),
    "mean sent (KB/s)": ("18", "4600, 4550", "5802, 5830"),
}
# Bhat et al., table 3: 3 nodes, 25 epochs; by batch: (node 0, node 1).
TABLE_3: Final = {
    32: ("47, 47", "885, 675"),
    64: ("56, 56", "895, 685"),
    128: ("63, 63", "1004, 769"),
    256: ("72, 72", "1066, 785"),
    512: ("79, 79", "1195, 894"),
    1024: ("83, 83", "1203, 948"),
}
BATCH: Final = Column(name="batch", label="batch per worker", form="d")
WORKERS: Final = Column(name="num_workers", label="nodes", form="d")
TIME: Final = Column(name="train_s", label="training time", unit="s", form=".1f")
ACCURACY: Final = Column(name="accuracy", label="test accuracy", unit="%", form=".2f", scale=100)


def table_2(evidence: Evidence) -> Table:
    """Resources by the number of nodes, beside Bhat et al.'s."""
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
    columns += [
        Column(name=f"said_{side}", label=f"{side}, Bhat et al.", published=True) for side in sides
    ]
    return charts.side_by_side(
        "table-2",
        "Resources by cluster size (Bhat et al., table 2)",
        rows,
        columns,
        note=_note(sides["3 nodes"]),
        runs=[run for runs in sides.values() for run in runs],
    )


def table_3(evidence: Evidence) -> Table:
    """CPU and memory by batch, beside Bhat et al.'s."""
    rows, shown = [], []
    for batch in _batches(evidence):
        runs = evidence.need("batch", strategy="ring", batch=batch)
        shown += runs
        said = TABLE_3.get(batch, (None, None))
        rows.append(
            {
                "batch": batch,
                "cpu": _nodes_text("mean CPU (%)", runs),
                "memory": _nodes_text("peak memory (MB)", runs),
                "n": len(runs),
                "said_cpu": said[0],
                "said_memory": said[1],
            }
        )
    if not rows:
        raise evidence.lacking("batch", strategy="ring")
    columns = [
        Column(name="batch", label="batch", form="d"),
        Column(name="cpu", label="mean CPU %, here"),
        Column(name="memory", label="peak memory MB, here"),
        medians.SEEDS,
        Column(name="said_cpu", label="mean CPU %, Bhat et al.", published=True),
        Column(name="said_memory", label="peak memory MB, Bhat et al.", published=True),
    ]
    title = "CPU and memory by batch, 3 nodes, ring (node 0, node 1; Bhat et al., table 3)"
    return charts.side_by_side("table-3", title, rows, columns, note=_note(shown), runs=shown)


def loss_nodes(evidence: Evidence) -> Figure:
    """Loss over epochs for one, two and three nodes, learning rate as it is and scaled."""
    runs = {"1 node": evidence.first("one")}
    for count in evidence.values("nodes", "num_workers", strategy="ring"):
        runs[f"{count} nodes"] = evidence.first("nodes", strategy="ring", num_workers=count)
    for count in evidence.values("scaled", "num_workers"):
        runs[f"{count} nodes, lr times {count}"] = evidence.first("scaled", num_workers=count)
    title = "Loss over epochs, 1 to 3 nodes, batch 64, ring (Bhat et al., fig. 5)"
    caption = medians.first_of(evidence.num_seeds("nodes"))
    return charts.loss(
        "loss-nodes", title, runs, charts.EPOCHS, caption=caption, epochs=_epochs(runs)
    )


def loss_batch(evidence: Evidence) -> Figure:
    """Loss over epochs for each batch."""
    runs = {
        f"batch {batch}": evidence.first("batch", strategy="ring", batch=batch)
        for batch in _batches(evidence)
    }
    if not runs:
        raise evidence.lacking("batch", strategy="ring")
    title = "Loss over epochs by batch, 3 nodes, ring (Bhat et al., fig. 6)"
    caption = medians.first_of(evidence.num_seeds("batch", strategy="ring"))
    return charts.loss(
        "loss-batch", title, runs, charts.EPOCHS, caption=caption, epochs=_epochs(runs)
    )


def batch_figure(name: str, title: str, column: Column, evidence: Evidence) -> Figure:
    """Time or accuracy over batch."""
    series = {each: {"strategy": each} for each in evidence.values("batch", "strategy")}
    full = f"{title} by batch, 3 nodes (Bhat et al., fig. 7)"
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
        sides = {1: evidence.find("one")} | {
            count: evidence.find("nodes", strategy=strategy, num_workers=count)
            for count in evidence.values("nodes", "num_workers")
        }
        for count, runs in sides.items():
            if found := of(runs, _measure(column)):
                shown[f"{strategy} {count}"] = runs[0]
                rows.append({"run": strategy, "num_workers": count, column.name: median(found)})
    if not rows:
        raise evidence.lacking("nodes")
    by = {each: each for each in strategies}
    full = f"{title} by cluster size, batch 64 (Bhat et al., fig. 8)"
    return charts.over(name, full, rows, WORKERS, column, by=by, runs=shown)


def network_batch(evidence: Evidence) -> Figure:
    """Network of node 0 over time for each batch."""
    runs = {
        f"batch {batch}": evidence.first("batch", strategy="ring", batch=batch)
        for batch in _batches(evidence)
        if batch in TABLE_3
    }
    if not runs:
        raise evidence.lacking("batch", strategy="ring")
    title = "Network of node 0 over time by batch, sent (Bhat et al., fig. 9)"
    caption = medians.first_of(evidence.num_seeds("batch", strategy="ring"))
    return charts.usage(
        "network-batch", title, runs, "net_sent_bytes_per_s", nodes=("node0",), caption=caption
    )


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
    is_slower, tie = above(losses[1], losses[0])
    holds = is_slower and abs(closed - alone) < (cluster - alone) / 2
    measured = (
        f"half-way the loss is {spread(losses[0])} on one node, {spread(losses[1])} on three, "
        f"{spread(losses[2])} on three with the learning rate times 3"
    )
    return judged(holds, measured, tie or "criterion: the gap more than halved")


def n2(evidence: Evidence) -> Judged:
    batches, runs = _ends(evidence)
    cpus = [of(each, lambda run: run.result.nodes[0].cpu_percent_mean) for each in runs]
    kept = [[each / 1e6 for each in of(found, _peak_memory)] for found in runs]
    measured = (
        f"from batch {batches[0]} to {batches[1]} CPU goes from {spread(cpus[0], '.0f', '%')} to "
        f"{spread(cpus[1], '.0f', '%')}, peak memory from {spread(kept[0], ',.0f', 'MB')} to "
        f"{spread(kept[1], ',.0f', 'MB')}"
    )
    (more_cpu, cpu_tie), (more_memory, memory_tie) = (
        above(each[1], each[0]) for each in (cpus, kept)
    )
    ties = [f"{what}: {tie}" for what, tie in (("CPU", cpu_tie), ("memory", memory_tie)) if tie]
    return judged(more_cpu and more_memory, measured, "; ".join(ties))


def n3(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for strategy in evidence.values("nodes", "strategy", num_workers=3):
        runs = evidence.need("nodes", strategy=strategy, num_workers=3)
        first, second = (
            [known(node(run, index).memory_peak_bytes, "memory") / 1e6 for run in runs]
            for index in (0, 1)
        )
        is_more, tie = above(first, second)
        holds.append(is_more)
        texts.append(
            f"{strategy}: {spread(first, ',.0f', 'MB')} on node 0, {spread(second, ',.0f', 'MB')} "
            f"on node 1{f', {tie}' if tie else ''}"
        )
    if not texts:
        raise evidence.lacking("nodes", num_workers=3)
    reason = "in a ring no node keeps more than another; with a server node 0 holds it too"
    return judged(all(holds), "; ".join(texts), reason)


def n4(evidence: Evidence) -> Judged:
    batches, runs = _ends(evidence)
    right = [[100 * each for each in of(found, _accuracy)] for found in runs]
    times = [of(found, _train_s) for found in runs]
    measured = "; ".join(
        f"batch {batch}: {spread(right[place], '.2f', '%')} in {spread(times[place], '.1f', 's')}"
        for place, batch in enumerate(batches)
    )
    wrong = [[100 - each for each in found] for found in right]  # 1 % of right is half of wrong
    (is_better, better_tie), (is_longer, longer_tie) = above(wrong[1], wrong[0]), above(*times)
    ties = (("accuracy", better_tie), ("time", longer_tie))
    reason = "; ".join(f"{what}: {tie}" for what, tie in ties if tie)
    return judged(is_better and is_longer, f"{measured}; {_most_accurate(evidence)}", reason)


def _most_accurate(evidence: Evidence) -> str:
    """Name the batch with the best median, and those that seeds cannot tell from it."""
    wrong = {
        batch: [1 - each for each in found]
        for batch in _batches(evidence)
        if (found := of(evidence.find("batch", strategy="ring", batch=batch), _accuracy))
    }
    best = min(wrong, key=lambda batch: median(wrong[batch]))
    others = [each for each in wrong if each != best]
    as_good = [str(each) for each in others if measures.tie(wrong[each], wrong[best])]
    also = f", a tie with {' and '.join(as_good)}" if as_good else ""
    return f"the most accurate is batch {best}{also}"


def n5(evidence: Evidence) -> Judged:
    batches, ends = _ends(evidence)
    totals = [[known(_total_mb(run), "traffic") for run in found] for found in ends]
    rates = [[known(per_s(_total_mb(run), run), "time") for run in found] for found in ends]
    total, rate = (
        " to ".join(spread(found, ",.1f", unit) for found in both)
        for both, unit in ((totals, "MB"), (rates, "MB/s"))
    )
    parts = [
        f"from batch {batches[0]} to {batches[1]} the total goes from {total}, the rate {rate}"
    ]
    is_steady = 0.5 < median(rates[1]) / median(rates[0]) < 2
    holds = [median(totals[1]) < median(totals[0]), is_steady]
    reasons = ["criterion: a rate of half to twice, and bytes within 5 %"]
    reasons += [] if is_steady else ["a larger batch computes longer between exchanges"]
    try:
        of_nodes = _of_nodes(ends[0], evidence.find("batch", strategy="ring"))
        holds.append(of_nodes.judgement == "holds")
        parts.append(of_nodes.measured)
        reasons += [of_nodes.reason] if of_nodes.reason else []
    except Untestable:
        parts.append(
            "whether node 0 sends what it receives, and moves more than others, cannot be measured "
            "where all seats share it"
        )
    return judged(all(holds), "; ".join(parts), "; ".join(reasons))


def _of_nodes(smallest: Sequence[StoredRun], runs: Sequence[StoredRun]) -> Judged:
    """Judge node 0: what it sends against what it receives, and both against node 1's."""
    # By node: over all workers what was sent is what was received, whatever they do.
    imbalance = max(_imbalance(node(run, 0)) for run in runs)
    first, second = (
        [known(node_bytes(node(run, index)), "the traffic of nodes") for run in smallest]
        for index in (0, 1)
    )
    is_more, tie = above(first, second)
    measured = (
        f"what node 0 sends and receives differs by {100 * imbalance:.1f} % at most; "
        f"node 0 moves {median(first) / max(median(second), 1):.2f} times node 1's bytes"
    )
    return judged(imbalance < 0.05 and is_more, measured, f"nodes: {tie}" if tie else "")


def _batches(evidence: Evidence) -> list[int]:
    return sorted(evidence.values("batch", "batch", strategy="ring"))


def _ends(evidence: Evidence) -> tuple[tuple[int, int], tuple[list[StoredRun], list[StoredRun]]]:
    """Give the smallest and the largest batch there is, and their runs."""
    batches = _batches(evidence)
    if len(batches) < 2:
        raise evidence.lacking("batch", strategy="ring")
    least, most = batches[0], batches[-1]
    first, last = (evidence.need("batch", strategy="ring", batch=each) for each in (least, most))
    return (least, most), (first, last)


def _imbalance(usage: NodeUsage) -> float:
    sent = known(usage.net_sent_bytes, "the traffic of nodes")
    received = known(usage.net_received_bytes, "the traffic of nodes")
    return abs(sent - received) / max(sent, received, 1)


def _total_mb(run: StoredRun) -> float | None:
    total = measures.exchanged_bytes(run)
    return None if total is None else total / 1e6


def _peak_memory(run: StoredRun) -> float | None:
    return run.result.nodes[0].memory_peak_bytes


def _train_s(run: StoredRun) -> float | None:
    return run.result.train_s


def _accuracy(run: StoredRun) -> float | None:
    return run.result.test_accuracy


def _measure(column: Column) -> Callable[[StoredRun], float | None]:
    return _train_s if column is TIME else _accuracy


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
    told = "Medians over seeds. CPU is of all cores a node may use. "
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
