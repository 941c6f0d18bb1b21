"""What a simulation of parameter servers is of, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

from paceline.arithmetic.costs import Costs
from paceline.arithmetic.exchange import Servers
from paceline.arithmetic.network import Network
from paceline.arithmetic.spread import expected_slowest, mean
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

    @cached_property
    def all_slowness(self) -> list[float]:
        """Of every worker."""
        nodes, workers = self.num_nodes, self.num_workers
        return [self.slowness_of(each * nodes // workers) for each in range(workers)]

    @property
    def is_steady(self) -> bool:
        """Whether each node is given one time to compute, which stands for all of its steps.

        Else times are drawn, of which too few are followed to be typical.
        """
        return self.is_alike or (self.is_in_step and self.network.is_uniform)

    def steady_slowness(self, node: int) -> float:
        """How many times the typical time a node's steps take, where that stands for all of them.

        Who waits for others waits for the slowest: where one node is the slowest of them anyway, it
        takes as long as that may be expected to be, and the others their average.
        """
        own, factors = self.slowness_of(node), self.step.factors
        is_slowest = own == max(self.all_slowness)
        return self._slowest if factors and self.is_in_step and is_slowest else own * mean(factors)

    @cached_property
    def _slowest(self) -> float:
        return expected_slowest(self.step.factors, self.all_slowness)

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
