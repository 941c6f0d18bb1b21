"""How much of R1 and R2 is one server's link, and how much is architecture.

The report has one server. The same strategy with a server beside every worker moves as many bytes
over each link as the ring does.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from paceline.store.stored import StoredRun
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import known, median, node_bytes, of
from paceline.studies.ring_links import NEAR

SPREAD: Final = "spread"
# Of the distance between one server and the ring: from here on spreading has closed it.
_CLOSED: Final = 0.9


class Speeds(NamedTuple):
    """Speed-ups over one worker alone, with as many workers as there were."""

    one: float
    """Of a parameter server with one server."""
    spread: float
    """With a server beside every worker."""
    ring: float

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


def in_plain_words(speeds: list[Speeds], most: int) -> str:
    """Say how R1 is judged for spread servers, and where its difference comes from."""
    if not speeds:
        return ""
    levels_off = sum(each.spread < NEAR * most for each in speeds)
    text = (
        f"with a server beside every worker PS levels off for {levels_off} of {len(speeds)} "
        "networks"
    )
    shares = [each.share for each in speeds if each.share is not None]
    if not shares:
        return text
    middle = median(shares)
    if middle >= _CLOSED:
        return (
            f"{text}: the report's difference between PS and ring is one server's link "
            f"({100 * min(middle, 1.0):.0f} % of it in the middle), not the architecture"
        )
    return (
        f"{text}: of the difference between PS and ring {100 * max(middle, 0.0):.0f} % in the "
        "middle is one server's link, the rest is left with servers spread"
    )


def fullest_bytes(evidence: Evidence, workload: str, count: int) -> float:
    """What crosses the fullest link of spread servers while every worker makes one step."""
    run = evidence.first(SPREAD, workload=workload, num_workers=count)
    totals = [known(node_bytes(node), "the traffic of nodes") for node in run.result.nodes]
    return max(totals) / max(run.result.worker_steps / count, 1)


def r2_of_spread(evidence: Evidence, short: dict[str, str]) -> str:
    """Say how the fullest link's traffic grows where servers are spread."""
    texts = []
    for workload in evidence.values(SPREAD, "workload"):
        counts = sorted(evidence.values(SPREAD, "num_workers", workload=workload))
        try:
            each_step = [fullest_bytes(evidence, workload, count) for count in counts]
        except Untestable:
            continue
        shown = ", ".join(
            f"{count}: {total / 1e6:,.0f} MB"
            for count, total in zip(counts, each_step, strict=True)
        )
        texts.append(f"{short.get(workload, workload)} {shown}")
    if not texts:
        return ""
    return (
        "; with a server beside every worker it does not: 2(N-1)/N models each way, as the ring; "
        f"the fullest link: {'; '.join(texts)}"
    )


def _rate(run: StoredRun) -> Any:
    return run.result.samples_per_s
