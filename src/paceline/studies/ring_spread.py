"""How much of R1 and R2 is one server's link, and how much is architecture.

The report has one server. The same strategy with a server beside every worker moves as many bytes
over each link as the ring does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from paceline.store.stored import StoredRun
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import known, median, node_bytes, of
from paceline.studies.ring_arithmetic import step_of
from paceline.studies.ring_links import NEAR

SPREAD: Final = "spread"
# Of the distance between one server and the ring: from here on spreading has closed it.
_CLOSED: Final = 0.9
# How far the fullest link may be from what it carries by theory: as far as R2 allows one server.
_WITHIN: Final = 0.1


class Speeds(NamedTuple):
    """Speed-ups over one worker alone, with as many workers as there were."""

    one: float
    """Of a parameter server with one server."""
    spread: float
    """With a server beside every worker."""
    ring: float
    network: str = ""
    is_limited: bool = False
    """Whether this host limited a run of any of them: such figures are the host's."""

    @property
    def share(self) -> float | None:
        """What part of the distance from one server to the ring is that one server's link."""
        distance = self.ring - self.one
        return None if distance <= 0 else (self.spread - self.one) / distance


def spread_speed_up(evidence: Evidence, workload: str, count: int) -> float | None:
    """Over one worker alone; None where it was not run."""
    several = of(evidence.find(SPREAD, workload=workload, num_workers=count), _rate)
    alone = of(evidence.find("ring", workload=workload, num_workers=1), _rate)
    return median(several) / median(alone) if several and alone else None


def is_limited(evidence: Evidence, workload: str, count: int, **of_one: Any) -> bool:
    """Whether this host limited a run that the speed-ups are of; `of_one`: tags of one server."""
    runs = [
        *evidence.find("ps", workload=workload, num_workers=count, **of_one),
        *evidence.find(SPREAD, workload=workload, num_workers=count),
        *evidence.find("ring", workload=workload, num_workers=count),
        *evidence.find("ring", workload=workload, num_workers=1),
    ]
    return any(run.result.host_limited for run in runs)


def in_plain_words(speeds: Sequence[Speeds], most: int) -> str:
    """Say how R1 is judged for spread servers, and where its difference comes from."""
    if not speeds:
        return ""
    kept = [each for each in speeds if not each.is_limited]
    limited = ", ".join(each.network for each in speeds if each.is_limited)
    left_out = f"; limited by this host, and left out: {limited}" if limited else ""
    if not kept:
        return f"with a server beside every worker nothing is judged{left_out}"
    levels_off = sum(each.spread < NEAR * most for each in kept)
    text = (
        f"with a server beside every worker PS levels off for {levels_off} of {len(kept)} networks"
    )
    return f"{text}{_of_the_difference(kept)}{left_out}"


def _of_the_difference(speeds: Sequence[Speeds]) -> str:
    shares = [each.share for each in speeds if each.share is not None]
    if not shares:
        return ""
    middle = median(shares)
    if middle >= _CLOSED:
        return (
            ": the report's difference between PS and ring is one server's link "
            f"({100 * min(middle, 1.0):.0f} % of it in the middle), not the architecture"
        )
    return (
        f": of the difference between PS and ring {100 * max(middle, 0.0):.0f} % in the "
        "middle is one server's link, the rest is left with servers spread"
    )


class Fullest(NamedTuple):
    """What crosses the fullest link of spread servers while every worker makes one step."""

    num_workers: int
    num_bytes: float
    """Both ways together."""
    models: float
    """Each way, on average."""

    @property
    def is_as_a_ring(self) -> bool:
        """Whether that is what a ring's links carry."""
        return abs(self.models / (2 * (self.num_workers - 1) / self.num_workers) - 1) < _WITHIN

    def __str__(self) -> str:
        return f"{self.num_workers}: {self.num_bytes / 1e6:,.0f} MB ({self.models:.2f} models)"


def fullest_link(evidence: Evidence, workload: str, count: int) -> Fullest:
    """Look for the link that carries most."""
    run = evidence.first(SPREAD, workload=workload, num_workers=count)
    result = run.result
    totals = [known(node_bytes(node), "the traffic of nodes") for node in result.nodes]
    num_bytes = max(totals) / max(result.worker_steps / count, 1)
    model_bytes = result.model_bytes or step_of(workload, result.batch_size).num_bytes
    return Fullest(count, num_bytes, num_bytes / 2 / model_bytes)


def r2_of_spread(evidence: Evidence, short: dict[str, str]) -> str:
    """Judge how the fullest link's traffic grows where servers are spread."""
    found: dict[str, list[Fullest]] = {}
    for workload in evidence.values(SPREAD, "workload"):
        counts = sorted(evidence.values(SPREAD, "num_workers", workload=workload))
        several = [count for count in counts if count > 1]
        try:
            found[workload] = [fullest_link(evidence, workload, count) for count in several]
        except Untestable:
            continue
    settings = [each for links in found.values() for each in links]
    if not settings:
        return ""
    holds = sum(each.is_as_a_ring for each in settings)
    shown = "; ".join(
        f"{short.get(workload, workload)} {', '.join(map(str, links))}"
        for workload, links in found.items()
        if links
    )
    return (
        f"; with a server beside every worker {_as_a_ring(holds, len(settings))}; the fullest "
        f"link, with models each way: {shown}"
    )


def _as_a_ring(holds: int, count: int) -> str:
    law = f"2(N-1)/N models each way, as the ring's (within {100 * _WITHIN:.0f} %)"
    if holds == count:
        return f"it does not: the fullest link carries {law} in all {count} settings"
    return f"the fullest link carries {law} in {holds} of {count} settings only"


def _rate(run: StoredRun) -> Any:
    return run.result.samples_per_s
