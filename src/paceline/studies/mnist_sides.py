"""What the claims of `mnist-logistic` compare: both modes, each repetition of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from paceline.outcome.results import NodeUsage
from paceline.store.stored import StoredRun
from paceline.studies import measures
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import known, median, node, node_bytes, of, per_s, spread

ASYNC: Final = "ps-async"
SYNC: Final = "ps-sync"
BATCHES: Final = (5, 10, 20, 30, 40)


def ratio(
    evidence: Evidence, higher: str, lower: str, measure: Callable[[StoredRun], float | None]
) -> tuple[float, str]:
    """Compare two strategies at equal steps of each worker."""
    over, under = sides(evidence, higher, lower, measure)
    ratios = [one / other for one, other in zip(over, under, strict=False)]
    return median(ratios), spread(ratios, ".2f")


def sides(
    evidence: Evidence, higher: str, lower: str, measure: Callable[[StoredRun], float | None]
) -> tuple[list[float], list[float]]:
    """Measure two strategies, each repetition."""
    first, second = (
        of(evidence.need("resources", strategy=name), measure) for name in (higher, lower)
    )
    if not first or not second:
        raise Untestable("it was not measured in these runs")
    return first, second


@final
@dataclass(frozen=True, kw_only=True)
class SideLosses:
    """The losses of both modes at one place, each repetition."""

    sync: list[float]
    free: list[float]
    """Of async."""
    text: str

    @property
    def gap(self) -> float:
        """By which part sync's is above async's."""
        return median(self.sync) / median(self.free) - 1


def losses_at(
    evidence: Evidence, group: str, axis: str, *, part: float = 1 / 3, **tags: int
) -> SideLosses:
    """Read the losses a part of the way along an axis, by default a third."""
    runs = {each: evidence.need(group, strategy=each, **tags) for each in (ASYNC, SYNC)}
    place = part * measures.reach([run for each in runs.values() for run in each], axis)
    sync, free = (
        of(runs[each], lambda run: measures.loss_at(run, axis, place)) for each in (SYNC, ASYNC)
    )
    text = f"at {place:,.0f} {axis} the loss is {spread(sync)} in sync, {spread(free)} in async"
    return SideLosses(sync=sync, free=free, text=text)


def by_batch(evidence: Evidence, strategy: str) -> list[list[StoredRun]]:
    """Give the runs at each batch; raises `Untestable` where one is not there."""
    return [evidence.need("batch", strategy=strategy, batch=batch) for batch in BATCHES]


def of_node(
    evidence: Evidence, strategy: str, measure: Callable[[NodeUsage], float], index: int = 0
) -> list[float]:
    """Measure a node in each repetition."""
    return [measure(node(run, index)) for run in evidence.need("resources", strategy=strategy)]


def traffic(run: StoredRun) -> float | None:
    """Bytes a second of node 0's link, or of all workers where nodes have none."""
    counted = None
    if len(run.result.nodes) > 1:
        counted = node_bytes(node(run, 0))
    return per_s(counted if counted is not None else measures.exchanged_bytes(run), run)


def train_s(run: StoredRun) -> float | None:
    return run.result.train_s


def cpu_of_node_0(run: StoredRun) -> float | None:
    return run.result.nodes[0].cpu_percent_mean


def peak_bytes(run: StoredRun) -> float | None:
    return run.result.nodes[0].memory_peak_bytes


def cpu(usage: NodeUsage) -> float:
    return known(usage.cpu_percent_mean, "CPU")


def memory(usage: NodeUsage) -> float:
    return known(usage.memory_peak_bytes, "memory")


def moved_bytes(usage: NodeUsage) -> float:
    return known(node_bytes(usage), "the traffic of nodes")
