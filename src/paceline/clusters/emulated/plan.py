"""What nodes to make, as the driver tells whoever makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class NodePlan:
    """One node, in real time: slowed down already where time is virtual."""

    name: str
    bits_per_s: float
    latency_s: float
    cpus: float | None
    """How many cores it may use; None: all."""


@final
@dataclass(frozen=True, kw_only=True)
class SitePlan:
    """All nodes of a run."""

    nodes: list[NodePlan]
    dilation: float
    mark: str
    """What the run's cgroups have in their names."""
