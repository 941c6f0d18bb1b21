"""What a simulation of parameter servers is of, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from paceline.arithmetic.costs import Costs
from paceline.arithmetic.exchange import Servers
from paceline.arithmetic.network import Network
from paceline.arithmetic.step import ComputeStep

MOST_ONE_BY_ONE: Final = 8
"""Where every worker talks to a server on every node, more nodes than this are too many pairs."""


@final
@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is simulated."""

    step: ComputeStep
    exchange: Servers
    num_workers: int
    num_nodes: int
    """Those that have workers."""
    network: Network
    costs: Costs
    slowness: tuple[float, ...] = ()
    """How many times as long computing takes on each of the first nodes; 1 on the others."""

    def slowness_of(self, node: int) -> float:
        return self.slowness[node] if node < len(self.slowness) else 1.0

    @property
    def all_slowness(self) -> list[float]:
        """Of every worker."""
        nodes, workers = self.num_nodes, self.num_workers
        return [self.slowness_of(each * nodes // workers) for each in range(workers)]

    @property
    def is_in_step(self) -> bool:
        return self.exchange.averaged and not self.exchange.backup

    @property
    def deals_chunks(self) -> bool:
        """Whether servers are few enough to follow each chunk to its own one."""
        return 1 < self.exchange.num_servers <= self.num_nodes <= MOST_ONE_BY_ONE

    @property
    def is_alike(self) -> bool:
        """Whether workers on nodes with the same seats do the same at the same time.

        Those out of step do so too, on average, where many servers share the load evenly.
        """
        spread = self.exchange.num_servers == self.num_nodes > MOST_ONE_BY_ONE
        return self.is_even and (self.is_in_step or spread)

    @property
    def is_even(self) -> bool:
        """Whether nodes compute equally fast, over equal links."""
        return self.network.is_uniform and len({*self.all_slowness}) == 1


@final
@dataclass(frozen=True, kw_only=True)
class Simulated:
    """What came of it."""

    worker_steps_per_s: float
    busy: dict[str, float]
    """The part of the time that links and servers' processors were busy, by what they are."""
