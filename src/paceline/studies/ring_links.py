"""Ring at six workers over links of 2 to 32 Gbit: from where on it is near proportional (R1)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from paceline.exhibits.values import Column, Figure, Table
from paceline.store.stored import StoredRun
from paceline.studies import charts
from paceline.studies.evidence import Evidence
from paceline.studies.measures import median, of
from paceline.studies.ring_arithmetic import (
    NETWORKS,
    compute_over_exchange,
    ideal_speed_up,
    link_of,
)

NEAR: Final = 0.8
"""Of the ideal speed-up: what is called near proportional."""
RING_BY_LINK: Final = "ring-by-link"
SPEED_UP_LINKS: Final = "speed-up-links"
_MOST_WORKERS: Final = 6
_GBIT: Final = 1e9


@final
@dataclass(frozen=True, kw_only=True)
class AtLink:
    """How ring does with one network on links of one rate."""

    workload: str
    gbit_per_s: float
    num_workers: int
    measured: float
    """Speed-up over one worker alone."""
    predicted: float | None
    ratio: float | None
    """How long a worker computes over how long its link is busy."""
    runs: Sequence[StoredRun]

    @property
    def is_near(self) -> bool:
        """Whether it is near proportional."""
        return self.measured >= NEAR * self.num_workers

    @property
    def verdict(self) -> str:
        if self.is_near:
            return "yes"
        is_limited = any(run.result.host_limited for run in self.runs)
        return "no: this machine could not keep up" if is_limited else "no"


def at_links(evidence: Evidence) -> list[AtLink]:
    """Measure every network on every link, networks in their order, slow links first."""
    found: dict[tuple[str, float], list[StoredRun]] = {}
    for run in (*evidence.find("ring", num_workers=_MOST_WORKERS), *evidence.find("links")):
        link = link_of(run)
        if link is not None:
            found.setdefault((run.result.workload, link.bits_per_s / _GBIT), []).append(run)
    places = [_at(evidence, *key, runs) for key, runs in sorted(found.items(), key=_by_network)]
    return [each for each in places if each is not None]


def ring_by_link(evidence: Evidence) -> Table:
    """Measured and predicted speed-ups, and the ratio that decides them."""
    places = at_links(evidence)
    if not places:
        raise evidence.lacking("ring", num_workers=_MOST_WORKERS)
    rows = [
        {
            "network": NETWORKS[each.workload].label,
            "link": each.gbit_per_s,
            "measured": each.measured,
            "predicted": each.predicted,
            "ratio": each.ratio,
            "near": each.verdict,
        }
        for each in places
    ]
    columns = [
        Column(name="network", label="network"),
        Column(name="link", label="link", unit="Gbit/s", form=".0f"),
        Column(name="measured", label="speed-up, here", form=".2f"),
        Column(name="predicted", label="by the closed form", form=".2f"),
        Column(name="ratio", label="compute / communication", form=".2f"),
        Column(name="near", label="near proportional"),
    ]
    note = (
        f"Over one worker alone. Near proportional: at least {NEAR} of the workers. Communication "
        "is how long a worker's link is busy in a step: 2(N-1)/N times the model, with headers. "
        "All steps count, the first too, which opens connections: it weighs where runs have few."
    )
    title = "Ring with six workers by link (claim R1)"
    shown = [run for each in places for run in each.runs]
    return charts.side_by_side(RING_BY_LINK, title, rows, columns, note=note, runs=shown)


def speed_up_links(evidence: Evidence) -> Figure:
    """Speed-up of ring over the rate of links, a line for each network."""
    places = at_links(evidence)
    if not places:
        raise evidence.lacking("ring", num_workers=_MOST_WORKERS)
    rows = [
        {
            "run": NETWORKS[each.workload].label,
            "link": each.gbit_per_s,
            "speed_up": each.measured,
            "ideal": float(each.num_workers),
        }
        for each in places
    ]
    return charts.over(
        SPEED_UP_LINKS,
        "Speed-up of ring with six workers over the link's rate (claim R1)",
        rows,
        Column(name="link", label="link", unit="Gbit/s", form=".0f"),
        Column(name="speed_up", label="speed-up over one worker alone", form=".2f"),
        by={NETWORKS[each.workload].label: each.workload for each in places},
        rule=Column(name="ideal", label="ideal", form=".0f"),
        runs={f"{each.workload} {each.gbit_per_s}": each.runs[0] for each in places},
    )


def of_network(places: Sequence[AtLink]) -> str:
    """Say from which link on one network is near proportional, by those that were tried."""
    fastest_first = sorted(places, key=lambda each: -each.gbit_per_s)
    near = list(itertools.takewhile(lambda each: each.is_near, fastest_first))
    if not near:
        return f"ring not near proportional up to {fastest_first[0].gbit_per_s:.0f} Gbit"
    ratio = "" if near[-1].ratio is None else f" (compute / communication {near[-1].ratio:.2f})"
    return f"ring near proportional from {near[-1].gbit_per_s:.0f} Gbit on{ratio}"


def from_which_ratio(places: Sequence[AtLink]) -> str:
    """Say from which ratio of compute to communication on all are near proportional."""
    near = sorted(each.ratio for each in places if each.ratio is not None and each.is_near)
    far = sorted(each.ratio for each in places if each.ratio is not None and not each.is_near)
    if not near:
        return ""
    below = f", the largest ratio at which it is not is {far[-1]:.2f}" if far else ""
    return f"the smallest ratio at which ring is near proportional is {near[0]:.2f}{below}"


def _at(
    evidence: Evidence, workload: str, gbit_per_s: float, runs: Sequence[StoredRun]
) -> AtLink | None:
    alone = of(evidence.find("ring", workload=workload, num_workers=1), _rate)
    several = of(runs, _rate)
    if not alone or not several or workload not in NETWORKS:
        return None
    return AtLink(
        workload=workload,
        gbit_per_s=gbit_per_s,
        num_workers=runs[0].result.num_workers,
        measured=median(several) / median(alone),
        predicted=ideal_speed_up(runs[0]),
        ratio=compute_over_exchange(runs[0]),
        runs=runs,
    )


def _by_network(item: tuple[tuple[str, float], list[StoredRun]]) -> tuple[int, float]:
    (workload, gbit_per_s), _ = item
    names = list(NETWORKS)
    return (names.index(workload) if workload in names else len(names)), gbit_per_s


def _rate(run: StoredRun) -> float | None:
    return run.result.samples_per_s
