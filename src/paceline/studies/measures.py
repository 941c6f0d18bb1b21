"""Figures that claims, tables and charts take from runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import polars
from polars import col

from paceline.outcome.results import NodeUsage
from paceline.store import curves
from paceline.store.stored import StoredRun
from paceline.studies.evidence import Untestable

ALIKE: Final = 0.02
"""What was measured once each, and differs by less than this part, is a tie."""
LEAST_SAMPLES: Final = 8
"""Of a node in an epoch, for its end to be seen: it is looked for in a quarter of the epoch."""
LEAST_ENDS: Final = 3
ONE_NODE: Final = "all seats share one node here; nodes of their own need the emulated cluster"


def median(values: Iterable[float | None]) -> float:
    """Give the middle of what was measured; raises `Untestable` where nothing was."""
    known = [each for each in values if each is not None]
    if not known:
        raise Untestable("it was not measured in these runs")
    return statistics.median(known)


def spread(values: Iterable[float | None], form: str = ".3g", unit: str = "") -> str:
    """Write the middle, the lowest, the highest and how many there are."""
    known = sorted(each for each in values if each is not None)
    middle = format(median(known), form)
    shown = f"{middle}{unit and ' ' + unit}"
    if len(known) == 1:
        return f"{shown} (n=1)"
    return f"{shown} ({known[0]:{form}} to {known[-1]:{form}}, n={len(known)})"


def tie(first: Sequence[float], second: Sequence[float]) -> str:
    """Say why two sides cannot be told apart; empty where they can.

    They can where all repetitions of one lie above all of the other. A single measurement has no
    spread: beside one, the middles must be 2 % apart too.
    """
    low, high = sorted((median(first), median(second)))
    if min(len(first), len(second)) == 1 and high - low < ALIKE * abs(high):
        return f"a tie: less than {100 * ALIKE:.0f} % apart, measured once"
    if min(first) <= max(second) and min(second) <= max(first):
        return "a tie: the ranges of repetitions overlap"
    return ""


def above(higher: Sequence[float], lower: Sequence[float]) -> tuple[bool, str]:
    """Say whether one side lies above the other, and why it cannot be told where it is a tie."""
    why = tie(higher, lower)
    return not why and median(higher) > median(lower), why


def of(runs: Sequence[StoredRun], measure: Callable[[StoredRun], float | None]) -> list[float]:
    """Measure every run; those of which it is not known are left out."""
    found = [measure(run) for run in runs]
    return [each for each in found if each is not None]


def node(run: StoredRun, index: int) -> NodeUsage:
    """Give what node `index` used; raises `Untestable` where the run had one node for all."""
    nodes = {each.name: each for each in run.result.nodes}
    if f"node{index}" not in nodes or (len(nodes) == 1 and run.result.num_workers > 1):
        raise Untestable(ONE_NODE)
    return nodes[f"node{index}"]


def per_s(amount: float | None, run: StoredRun) -> float | None:
    """Spread an amount over the training time."""
    return amount / run.result.train_s if amount is not None and run.result.train_s else None


def exchanged_bytes(run: StoredRun) -> float | None:
    """Count what all workers sent and received, as the strategy counts it, shared memory too."""
    counts = [(each.sent_bytes, each.received_bytes) for each in run.result.workers]
    if any(sent is None or received is None for sent, received in counts):
        return None
    return float(sum((sent or 0) + (received or 0) for sent, received in counts))


def node_bytes(usage: NodeUsage) -> float | None:
    """Count what crossed a node's link both ways."""
    if usage.net_sent_bytes is None or usage.net_received_bytes is None:
        return None
    return float(usage.net_sent_bytes + usage.net_received_bytes)


def known(value: float | None, what: str) -> float:
    """Insist on a value; raises `Untestable` naming what is not known."""
    if value is None:
        raise Untestable(f"{what} was not measured in these runs")
    return value


def share(run: StoredRun, phase: str) -> float:
    """Say which part of the workers' time went into load, compute or exchange."""
    parts = [(getattr(each, f"{phase}_s"), each.train_s) for each in run.result.workers]
    if any(part is None for part, _ in parts):
        raise Untestable("the parts of a step were not recorded")
    return float(sum(part for part, _ in parts) / max(sum(all_s for _, all_s in parts), 1e-9))


def loss_at(run: StoredRun, axis: str, value: float) -> float | None:
    """Read the smoothed training loss where `axis` (samples, steps, time_s) reaches a value."""
    line = curves.loss(run)
    reached = line.filter(col(axis) >= value)
    if reached.is_empty():
        return None
    return float(reached["smoothed"][0])


def reach(runs: Iterable[StoredRun], axis: str) -> float:
    """Say how far along an axis all runs came."""
    ends = [curves.loss(run)[axis].max() for run in runs]
    known_ends = [float(each) for each in ends if isinstance(each, (int, float))]
    if not known_ends:
        raise Untestable("no losses were recorded")
    return min(known_ends)


def noise(run: StoredRun) -> float | None:
    """How much losses of single mini-batches vary around their mean, in the second half."""
    rows = run.steps
    if rows.is_empty():
        return None
    end = rows["worker_steps"].max()
    assert isinstance(end, int)
    late = rows.filter(col("worker_steps") > end / 2, col("count") > 1)
    if late.is_empty():
        return None
    weighted = late.select((col("loss_variance") * col("count")).sum() / col("count").sum())
    return math.sqrt(weighted.item())


def memory_drift(run: StoredRun) -> float | None:
    """By how much memory moved in the second half of a run, as a share of its mean."""
    rows = curves.usage(run).filter(col("node") == "node0")
    if len(rows) < 4:
        return None
    late = rows.tail(len(rows) // 2)["memory_bytes"]
    low, high, mean = late.min(), late.max(), late.mean()
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert isinstance(mean, float)
    return (high - low) / mean


def finish_spread(run: StoredRun) -> float | None:
    """How far apart the workers finished, as a share of the slowest one's time."""
    times = [each.train_s for each in run.result.workers]
    return (max(times) - min(times)) / max(times) if len(times) > 1 and max(times) else None


def samples_per_epoch(run: StoredRun) -> float:
    """How often node 0 was looked at in each epoch."""
    return len(_of_node_0(run)) / (run.spec.get("epochs") or 1)


def epoch_dip(run: StoredRun, column: str = "cpu_percent") -> float | None:
    """Compare a node's use around the ends of epochs with that in between; 1: no difference.

    None where the run has too few epochs, or too few samples in each to see the end of one.
    """
    usage, ends = _of_node_0(run), _epoch_ends(run)
    if len(ends) < LEAST_ENDS or samples_per_epoch(run) < LEAST_SAMPLES:
        return None
    if column not in usage.columns:
        return None
    width_s = ends[-1] / len(ends) / 8
    is_near = polars.any_horizontal((col("time_s") - end).abs() <= width_s for end in ends)
    near, between = usage.filter(is_near)[column].mean(), usage.filter(~is_near)[column].mean()
    if not isinstance(near, float) or not isinstance(between, float) or not between:
        return None
    return near / between


def _of_node_0(run: StoredRun) -> polars.DataFrame:
    return curves.usage(run).filter(col("node") == "node0")


def _epoch_ends(run: StoredRun) -> list[float]:
    """When each epoch but the last ended, by the rows that were taken."""
    epochs = run.spec.get("epochs")
    line = curves.loss(run)
    if not epochs or epochs < 2 or line.is_empty():
        return []
    an_epoch = run.result.samples / epochs
    found = [line.filter(col("samples") >= an_epoch * number) for number in range(1, epochs)]
    return [float(each["time_s"][0]) for each in found if not each.is_empty()]
