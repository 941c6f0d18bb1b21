"""Whether the packet rate of a ring's workers follows what they compute (R3)."""

from __future__ import annotations

import itertools
from typing import Final

from paceline.store.stored import StoredRun
from paceline.studies.base import Judged, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import above, per_s, spread
from paceline.studies.ring_arithmetic import NETWORKS, step_of

_ASKED: Final = (
    "packets: criterion, the longer a network computes per byte, the fewer per second, each "
    "network apart from the next"
)


def packet_rates(evidence: Evidence) -> Judged:
    """Compare networks by the packets a second that each worker sends, at most workers.

    All send as much of their model a step. If computing decides how often, a network that computes
    longer for each of its bytes sends fewer packets a second; if links do, all send alike. Where
    this host did not keep up, the rate is the host's.
    """
    most = max(evidence.planned("ring", "num_workers"), default=0)
    rates, limited = {}, []
    for workload in NETWORKS:
        for run in evidence.find("ring", workload=workload, num_workers=most)[:1]:
            if run.result.host_limited:
                limited.append(NETWORKS[workload].label)
            else:
                rates[workload] = _packets_per_s(run)
    left_out = f"; limited by this host, and left out: {', '.join(limited)}" if limited else ""
    if len(rates) < 2:
        raise Untestable(f"it takes two networks with {most} workers to compare{left_out}")
    inorder = sorted(rates, key=_compute_per_byte)
    pairs = [above(rates[one], rates[next_one]) for one, next_one in itertools.pairwise(inorder)]
    shown = ", ".join(f"{NETWORKS[each].label} {spread(rates[each], ',.0f')}" for each in inorder)
    ties = sum(bool(tie) for _, tie in pairs)
    reason = f"{_ASKED}: so in {sum(holds for holds, _ in pairs)} of {len(pairs)}, a tie in {ties}"
    reason += left_out
    measured = (
        f"packets per second of each of {most} workers, least computing per byte first: {shown}"
    )
    return judged(all(holds for holds, _ in pairs), measured, reason)


def _packets_per_s(run: StoredRun) -> list[float]:
    """What each worker's node sent a second."""
    rates = [per_s(each.packets_sent, run) for each in run.result.nodes]
    known = [each for each in rates if each is not None]
    if not known or len(known) < len(rates):
        raise Untestable("packets of nodes were not counted in these runs")
    return known


def _compute_per_byte(workload: str) -> float:
    step = step_of(workload, 1)
    return step.compute_s / step.num_bytes
