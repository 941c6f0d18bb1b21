"""`alexnet-scaling`: the figures and claims of Liu et al., part 2."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from paceline.exhibits.values import Column, Figure, Table
from paceline.outcome.results import NodeUsage
from paceline.store.stored import StoredRun
from paceline.studies import charts, measures, medians
from paceline.studies.base import Judged, Study, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import known, median, node, node_bytes, of, spread, tie

STRATEGIES: Final = ("ps-sync", "ps-async")
WORKERS: Final = Column(name="num_workers", label="machines", form="d")
RATE: Final = Column(name="samples_per_s", label="images per second", form=",.1f")
DEVICE: Final = "device-busy"
_EXCHANGING: Final = (
    "Replayed compute takes time and hardly any CPU: what is left is exchanging. See figure "
    f"{DEVICE}."
)
_TWO_CORES: Final = (
    "workers of real compute share this machine's cores, so a third adds none: replayed compute on "
    "the emulated cluster is what shows machines of their own"
)


def summary(evidence: Evidence) -> Table:
    """Images per second and loss of every set-up: medians over its seeds."""
    rows, shown = [], []
    for group, strategy, count in itertools.product(("real", "replayed"), STRATEGIES, (2, 3)):
        if runs := evidence.find(group, strategy=strategy, num_workers=count):
            shown += runs
            told = {"compute": group, "strategy": strategy, "machines": count, "n": len(runs)}
            rows.append(told | medians.of_seeds(rate=of(runs, _rate), loss=of(runs, _final_loss)))
    if not rows:
        raise evidence.lacking("real")
    columns = [
        Column(name="compute", label="compute"),
        Column(name="strategy", label="strategy"),
        Column(name="machines", label="machines", form="d"),
        *medians.columns(
            [
                Column(name="rate", label="images/s", form=",.1f"),
                Column(name="loss", label="training loss, last tenth", form=".3f"),
            ]
        ),
        medians.SEEDS,
    ]
    note = (
        f"{medians.NOTE}Liu et al. publish no table of these runs. A replayed loss means nothing."
    )
    return charts.side_by_side("summary", "AlexNet", rows, columns, note=note, runs=shown)


def loss(evidence: Evidence) -> Figure:
    """Loss over samples per cluster size."""
    title = "Loss over images, real compute, by cluster size (Liu et al.)"
    caption = medians.first_of(evidence.num_seeds("real"))
    return charts.loss("loss", title, _runs(evidence, "real"), charts.SAMPLES, caption=caption)


def rate(evidence: Evidence) -> Figure:
    """Images per second per cluster size."""
    group = _judging(evidence)
    series = {each: {"strategy": each} for each in STRATEGIES}
    return charts.over_tag(
        "images-per-second",
        f"Images per second by cluster size, {group} compute (Liu et al.)",
        evidence,
        group,
        x=WORKERS,
        y=RATE,
        measure=lambda run: run.result.samples_per_s,
        series=series,
    )


def used(name: str, what: str, measure: str, evidence: Evidence, caption: str = "") -> Figure:
    """CPU, memory or network of each node over time, of the runs that judge A3 and A4."""
    group = _judging(evidence)
    title = f"{what} of each node over time, {group} compute (Liu et al.)"
    told = medians.first_of(evidence.num_seeds(group)) + caption
    return charts.usage(name, title, _runs(evidence, group), measure, caption=told)


def cpu(evidence: Evidence) -> Figure:
    """CPU of each node over time; of replayed runs it is not what their devices do."""
    is_replayed = _judging(evidence) == "replayed"
    return used("cpu", "CPU", "cpu_percent", evidence, _EXCHANGING if is_replayed else "")


def device(evidence: Evidence) -> Figure:
    """How busy the replayed device of each node was over time."""
    if _judging(evidence) == "real":
        raise Untestable("compute is real in these runs: what computes is in figure cpu")
    return used(DEVICE, "Device", "device_busy_percent", evidence)


def a1(evidence: Evidence) -> Judged:
    texts, ratios = [], []
    group = _judging(evidence)
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
    reason += "; criterion: 1.3 to 1.7 times"
    return judged(all(1.3 <= each <= 1.7 for each in ratios), measured, reason)


def a2(evidence: Evidence) -> Judged:
    runs = [evidence.need("real", strategy="ps-sync", num_workers=count) for count in (2, 3)]
    place = measures.reach([run for found in runs for run in found], "samples") * 0.9
    two, three = (of(found, lambda run: measures.loss_at(run, "samples", place)) for found in runs)
    measured = (
        f"ps-sync, after {place:,.0f} images the loss is {spread(two, '.3f')} with two, "
        f"{spread(three, '.3f')} with three"
    )
    reason = "criterion: medians within 10 %"
    apart = tie(two, three)
    holds = abs(median(three) / median(two) - 1) < 0.1
    return judged(holds, measured, f"{reason}; {apart}" if apart else reason)


def a3(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for strategy in STRATEGIES:
        first = _change(evidence, strategy, 0, _traffic)
        second = _change(evidence, strategy, 1, _traffic)
        holds.append(first > 1.1 and abs(second - 1) < 0.15)
        texts.append(f"{strategy}: node 0 {first:.2f} times per step, node 1 {second:.2f} times")
    reason = "criterion: more than 1.1 times on node 0, within 15 % on node 1"
    measured = f"from two to three machines, {'; '.join(texts)}"
    return judged(all(holds), measured, f"{reason}; {_n(evidence)}")


def a4(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for strategy in STRATEGIES:
        memory = _change(evidence, strategy, 1, lambda usage, _: usage.memory_peak_bytes)
        cpu = _change(evidence, strategy, 1, lambda usage, _: usage.cpu_percent_mean)
        holds.append(abs(memory - 1) < 0.1 and abs(cpu - 1) < 0.1)
        texts.append(
            f"{strategy}: node 1's memory {memory:.2f} times, CPU {cpu:.2f} times"
            f"{_device_change(evidence, strategy)}"
        )
    measured = f"from two to three machines, {'; '.join(texts)}"
    reason = f"criterion: memory and CPU within 10 %; {_n(evidence)}"
    if _judging(evidence) == "replayed":
        reason += "; replayed compute takes hardly any CPU: that of exchanging is compared"
    return judged(all(holds), measured, reason)


def _device_change(evidence: Evidence, strategy: str) -> str:
    """Say how much busier node 1's device became; nothing where none was replayed."""
    try:
        busy = _change(evidence, strategy, 1, lambda usage, _: usage.device_busy_percent)
    except Untestable:
        return ""
    return f", its device busy {busy:.2f} times as long"


def _n(evidence: Evidence) -> str:
    """Say by how many seeds machines are judged: by the fewest that a set-up has."""
    group = _judging(evidence)
    sides = itertools.product(STRATEGIES, (2, 3))
    fewest = min(evidence.num_seeds(group, strategy=one, num_workers=many) for one, many in sides)
    return f"n={fewest}"


def _judging(evidence: Evidence) -> str:
    """Name the runs by which machines are judged: replayed ones, which share no cores."""
    return "replayed" if evidence.find("replayed") else "real"


def _rate(run: StoredRun) -> float | None:
    return run.result.samples_per_s


def _final_loss(run: StoredRun) -> float | None:
    return run.result.final_loss


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
    """By what a node's figure is multiplied when a third machine joins, medians of seeds."""
    before, after = (
        median(
            known(measure(node(run, index), run), "the use of nodes")
            for run in evidence.need(_judging(evidence), strategy=strategy, num_workers=count)
        )
        for count in (2, 3)
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
        "cpu": cpu,
        DEVICE: device,
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
