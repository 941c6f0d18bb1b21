"""`alexnet-scaling`: the figures and claims of report 001, part 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paceline.exhibits import Column, Figure, Table
from paceline.results import NodeUsage
from paceline.stored import StoredRun
from paceline.studies import charts, measures
from paceline.studies.base import Judged, Study, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import known, median, node, node_bytes, of

STRATEGIES: Final = ("ps-sync", "ps-async")
WORKERS: Final = Column(name="num_workers", label="machines", form="d")
RATE: Final = Column(name="samples_per_s", label="images a second", form=",.1f")
_TWO_CORES: Final = (
    "workers of real compute share this machine's cores, so a third adds none: replayed compute on "
    "the emulated cluster is what shows machines of their own"
)


def summary(evidence: Evidence) -> Table:
    """Images a second and loss of every run."""
    rows, shown = [], []
    for group in ("real", "replayed"):
        for strategy in STRATEGIES:
            for count in (2, 3):
                for run in evidence.find(group, strategy=strategy, num_workers=count)[:1]:
                    shown.append(run)
                    rows.append(
                        {
                            "compute": group,
                            "strategy": strategy,
                            "machines": count,
                            "rate": run.result.samples_per_s,
                            "loss": run.result.final_loss,
                        }
                    )
    if not rows:
        raise evidence.lacking("real")
    columns = [
        Column(name="compute", label="compute"),
        Column(name="strategy", label="strategy"),
        Column(name="machines", label="machines", form="d"),
        Column(name="rate", label="images/s", form=",.1f"),
        Column(name="loss", label="training loss, last tenth", form=".3f"),
    ]
    note = "Report 001 publishes no table of these runs. A replayed loss means nothing."
    return charts.side_by_side("summary", "AlexNet", rows, columns, note=note, runs=shown)


def loss(evidence: Evidence) -> Figure:
    """Loss over samples per cluster size."""
    title = "Loss over images, real compute, by cluster size (001)"
    return charts.loss("loss", title, _runs(evidence, "real"), charts.SAMPLES)


def rate(evidence: Evidence) -> Figure:
    """Images a second per cluster size."""
    group = "replayed" if evidence.find("replayed") else "real"
    series = {each: {"strategy": each} for each in STRATEGIES}
    return charts.over_tag(
        "images-per-second",
        f"Images a second by cluster size, {group} compute (001)",
        evidence,
        group,
        x=WORKERS,
        y=RATE,
        measure=lambda run: run.result.samples_per_s,
        series=series,
    )


def used(name: str, what: str, measure: str, evidence: Evidence) -> Figure:
    """CPU, memory or network of each node over time."""
    title = f"{what} of each node over time (001)"
    return charts.usage(name, title, _runs(evidence, "real"), measure)


def a1(evidence: Evidence) -> Judged:
    texts, ratios = [], []
    group = "replayed" if evidence.find("replayed") else "real"
    for strategy in STRATEGIES:
        two, three = (
            median(of(evidence.need(group, strategy=strategy, num_workers=count), _rate))
            for count in (2, 3)
        )
        ratios.append(three / two)
        texts.append(f"{strategy} {three / two:.2f} times ({two:,.1f} to {three:,.1f} images/s)")
    measured = f"{group} compute: {', '.join(texts)}"
    if group == "real":
        return Judged(measured=measured, judgement="cannot be tested here", reason=_TWO_CORES)
    reason = "the server's link carries every worker's model: from there on machines add nothing"
    return judged(all(1.3 <= each <= 1.7 for each in ratios), measured, reason)


def a2(evidence: Evidence) -> Judged:
    runs = [evidence.first("real", strategy="ps-sync", num_workers=count) for count in (2, 3)]
    place = measures.reach(runs, "samples") * 0.9
    two, three = (known(measures.loss_at(run, "samples", place), "the loss") for run in runs)
    measured = f"after {place:,.0f} images the loss is {two:.3f} with two, {three:.3f} with three"
    return judged(abs(three / two - 1) < 0.1, measured, "asked for: within 10 %; n=1")


def a3(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for strategy in STRATEGIES:
        first = _change(evidence, strategy, 0, _traffic)
        second = _change(evidence, strategy, 1, _traffic)
        holds.append(first > 1.1 and abs(second - 1) < 0.15)
        texts.append(f"{strategy}: node 0 {first:.2f} times a step, node 1 {second:.2f} times")
    reason = "asked for: more than 1.1 times on node 0, within 15 % on node 1; n=1"
    return judged(all(holds), f"from two to three machines, {'; '.join(texts)}", reason)


def a4(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for strategy in STRATEGIES:
        memory = _change(evidence, strategy, 1, lambda usage, _: usage.memory_peak_bytes)
        cpu = _change(evidence, strategy, 1, lambda usage, _: usage.cpu_percent_mean)
        holds.append(abs(memory - 1) < 0.1 and abs(cpu - 1) < 0.1)
        texts.append(f"{strategy}: node 1's memory {memory:.2f} times, CPU {cpu:.2f} times")
    reason = "asked for: within 10 %; n=1"
    return judged(all(holds), f"from two to three machines, {'; '.join(texts)}", reason)


def _rate(run: StoredRun) -> float | None:
    return run.result.samples_per_s


def _traffic(usage: NodeUsage, run: StoredRun) -> float | None:
    """Bytes of a node for each round of steps, whichever the mode."""
    total = node_bytes(usage)
    return (
        None if total is None else total / max(run.result.worker_steps, 1) * run.result.num_workers
    )


def _change(
    evidence: Evidence,
    strategy: str,
    index: int,
    measure: Callable[[NodeUsage, StoredRun], float | None],
) -> float:
    """By what a node's figure is multiplied when a third machine joins."""
    group = "replayed" if evidence.find("replayed") else "real"
    two, three = (evidence.first(group, strategy=strategy, num_workers=count) for count in (2, 3))
    before, after = (
        known(measure(node(run, index), run), "the traffic of nodes") for run in (two, three)
    )
    if not before:
        raise Untestable("the runs were too short for samples of their nodes")
    return after / before


def _runs(evidence: Evidence, group: str) -> dict[str, StoredRun]:
    runs = {
        f"{strategy}, {count} machines": found[0]
        for strategy in STRATEGIES
        for count in (2, 3)
        if (found := evidence.find(group, strategy=strategy, num_workers=count))
    }
    if not runs:
        raise evidence.lacking(group)
    return runs


STUDY: Final = Study(
    tables={"summary": summary},
    figures={
        "loss": loss,
        "images-per-second": rate,
        "cpu": lambda evidence: used("cpu", "CPU", "cpu_percent", evidence),
        "memory": lambda evidence: used("memory", "Memory", "memory_bytes", evidence),
        "network-sent": lambda evidence: used(
            "network-sent", "Network, sent,", "net_sent_bytes_per_s", evidence
        ),
        "network-received": lambda evidence: used(
            "network-received", "Network, received,", "net_received_bytes_per_s", evidence
        ),
    },
    claims={"A1": a1, "A2": a2, "A3": a3, "A4": a4},
)
