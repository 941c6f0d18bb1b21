"""One answer for any strategy: how often the workers step, and what they wait for.

Up to `MOST_SIMULATED` nodes parameter servers are simulated; beyond, and for all-reduce at any
number, it is arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, final

from paceline.arithmetic.all_reduce import RingStep, all_reduce_step, buckets
from paceline.arithmetic.closed_form import (
    busiest_of,
    processor_s_of,
    servers_step_s,
    spread_steps_per_s,
)
from paceline.arithmetic.costs import NO_COSTS, Costs
from paceline.arithmetic.events import Simulation
from paceline.arithmetic.exchange import AllReducePattern, ExchangePattern, NoExchange, Servers
from paceline.arithmetic.network import Network
from paceline.arithmetic.racks import rack_load
from paceline.arithmetic.ring_steps import followed_step_s
from paceline.arithmetic.setting import MOST_ONE_BY_ONE, Setting
from paceline.arithmetic.spread import expected_slowest, mean
from paceline.arithmetic.step import ComputeStep

MOST_SIMULATED: Final = 256
LimitKind = Literal["compute", "link", "server", "stragglers", "latency"]
# Of less than this part of a step nobody says that it is what limits it.
_LEAST_SHARE: Final = 0.02


@final
@dataclass(frozen=True, kw_only=True)
class Situation:
    """Who computes what, and what is between them."""

    step: ComputeStep
    network: Network
    num_workers: int
    num_nodes: int
    """Those that have workers."""
    costs: Costs = NO_COSTS
    slowness: tuple[float, ...] = ()
    """How many times as long computing takes on each of the first nodes; 1 on the others."""

    @property
    def per_node(self) -> int:
        """Workers of the fullest node."""
        return -(-self.num_workers // self.num_nodes)

    @property
    def all_slowness(self) -> list[float]:
        return [
            self.slowness[node] if node < len(self.slowness) else 1.0
            for node in (
                each * self.num_nodes // self.num_workers for each in range(self.num_workers)
            )
        ]


@final
@dataclass(frozen=True, kw_only=True)
class Limit:
    """What a step waits for most."""

    kind: LimitKind
    where: str
    share: float
    """The part of a step that it takes; what happens at the same time counts for both."""


@final
@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is predicted of one strategy on so many nodes."""

    worker_steps_per_s: float
    """Of all workers together."""
    step_s: float
    """How long one of a worker takes, on average."""
    limit: Limit
    shares: dict[str, float]
    """The part of a step that each thing is busy: `compute`, links, servers' processors."""


def forecast(exchange: ExchangePattern, situation: Situation, *, simulate: bool = True) -> Forecast:
    """Predict one strategy; without `simulate` by closed forms alone, which is quicker."""
    if isinstance(exchange, NoExchange):
        return _alone(situation)
    if not isinstance(exchange, Servers) or not exchange.moves_rows:
        situation = replace(situation, step=situation.step.with_whole_table())
    if isinstance(exchange, AllReducePattern):
        return _all_reduce(exchange, situation)
    if simulate and _is_simulated(exchange, situation):
        return _simulated(exchange, situation)
    made = _by_closed_form(exchange, situation)
    without = replace(situation, network=replace(situation.network, uplink=None, rack=None))
    if simulate and without != situation and _is_simulated(exchange, without):
        # Racks make nothing quicker: what a simulation of the rest finds beside is not lost.
        free = _simulated(exchange, without)
        return min(made, free, key=lambda each: each.worker_steps_per_s)
    return made


def _is_simulated(exchange: Servers, situation: Situation) -> bool:
    """Whether following chunks says more than arithmetic.

    Nodes that differ by their racks only are too many to follow one by one in chunks as small as
    they are, and large ones come back too late.
    """
    num_nodes = situation.num_nodes + exchange.num_servers * exchange.apart
    if num_nodes > MOST_SIMULATED or situation.network.num_racks(num_nodes) == 1:
        return num_nodes <= MOST_SIMULATED
    without = _setting(exchange, situation, replace(situation.network, uplink=None, rack=None))
    is_free = without.is_even and exchange.is_one_for_all
    return num_nodes <= MOST_ONE_BY_ONE or not (without.is_alike or is_free)


def _alone(situation: Situation) -> Forecast:
    usual_s = situation.step.compute_s * mean(situation.step.factors) + situation.step.update_s
    per_s = sum(1 / (usual_s * slow) for slow in situation.all_slowness)
    return _made(situation, per_s, {"compute": 1.0})


def _slowest_step(situation: Situation) -> ComputeStep:
    """A step of the slowest worker of each: what those in step with each other wait for."""
    return situation.step.scaled(expected_slowest(situation.step.factors, situation.all_slowness))


def _all_reduce(exchange: AllReducePattern, situation: Situation) -> Forecast:
    """A node that is always the slowest finds the others waiting; these have each other too."""

    def of(slowness: Sequence[float], *, is_late: bool) -> RingStep:
        factor = expected_slowest(situation.step.factors, slowness)
        return all_reduce_step(
            situation.step.scaled(factor),
            exchange,
            num_workers=situation.num_workers,
            num_nodes=situation.num_nodes,
            network=situation.network,
            costs=situation.costs,
            is_late=is_late,
        )

    every = situation.all_slowness
    others = _without_slowest(situation)
    tried = [of(every, is_late=True), of(others, is_late=False)]
    made = max(tried, key=lambda each: each.step_s)
    followed_s = _followed_ring_s(exchange, situation)
    if followed_s is not None:
        made = replace(made, step_s=min(made.step_s, followed_s))
    shares = {"links": made.link_s / made.step_s, "latency": made.latency_s / made.step_s}
    return _made(situation, situation.num_workers / made.step_s, shares)


def _followed_ring_s(exchange: AllReducePattern, situation: Situation) -> float | None:
    """Follow a ring whose links differ, of one worker per node; None: arithmetic has to do."""
    is_ring = exchange.algorithm == "ring" and situation.num_workers == situation.num_nodes
    if not is_ring or situation.network.is_uniform or situation.num_nodes == 1:
        return None
    step, slowness = situation.step, situation.all_slowness
    more = expected_slowest(step.factors, slowness) / max(slowness)
    steps = {slow: step.scaled(slow * more) for slow in {*slowness}}
    cut = {slow: buckets(each, exchange) for slow, each in steps.items()}
    if not exchange.overlap:
        cut = {s: [(steps[s].compute_s, size) for _, size in each] for s, each in cut.items()}
    return followed_step_s(
        [cut[slow] for slow in slowness],
        [steps[slow].compute_s for slow in slowness],
        step.update_s,
        situation.network,
        situation.costs,
    )


def _without_slowest(situation: Situation) -> list[float]:
    """How slow the workers of all nodes are but one, of those that are slowest."""
    slowest = max(situation.slowness, default=1.0)
    if slowest <= 1.0 or situation.num_nodes == 1:
        return situation.all_slowness
    left = list(situation.slowness)
    left[left.index(slowest)] = min(1.0, *left)
    return replace(situation, slowness=tuple(left)).all_slowness


def _simulated(exchange: Servers, situation: Situation) -> Forecast:
    made = Simulation(_setting(exchange, situation, situation.network)).run()
    if not made.worker_steps_per_s:  # too many pairs to follow, and no two of them alike
        return _by_closed_form(exchange, situation)
    return _made(situation, made.worker_steps_per_s, made.busy)


def _setting(exchange: Servers, situation: Situation, network: Network) -> Setting:
    return Setting(
        step=situation.step,
        exchange=exchange,
        num_workers=situation.num_workers,
        num_nodes=situation.num_nodes,
        network=network,
        costs=situation.costs,
        slowness=situation.slowness,
    )


def _by_closed_form(exchange: Servers, situation: Situation) -> Forecast:
    network, step = situation.network, situation.step
    usual = _slowest_step(situation) if exchange.averaged else step.scaled(mean(step.factors))
    workers, nodes = situation.num_workers, situation.num_nodes
    racks = rack_load(step, exchange, workers, nodes, network)
    link = network.slowest(nodes)
    more: dict[str, Any] = {
        "costs": situation.costs,
        "latency_s": network.latency_s,
        "per_node": situation.per_node,
        "racks": racks,
    }
    if exchange.is_one_for_all:
        per_s = spread_steps_per_s(usual, link, workers, exchange, **more)
    else:
        per_s = workers / servers_step_s(usual, link, workers, exchange, **more)
    step_s = workers / per_s
    processor_s = processor_s_of(step, exchange, workers, situation.costs)
    busiest = busiest_of(step, workers, exchange, situation.per_node)
    is_by_racks = racks.exchanged_s > link.seconds(busiest)
    exposed_s = max(0.0, step_s - usual.compute_s)
    shares = {
        "uplinks of racks" if is_by_racks else "links": exposed_s / step_s,
        "server0": min(1.0, processor_s / step_s),
    }
    return _made(situation, per_s, shares)


def _made(situation: Situation, per_s: float, shares: dict[str, float]) -> Forecast:
    step_s = situation.num_workers / per_s
    usual_s = situation.step.compute_s * mean(situation.step.factors)
    waits_s = _slowest_step(situation).compute_s - usual_s
    known = {
        "compute": min(1.0, usual_s / step_s),
        **shares,
        "stragglers": max(0.0, min(1.0, waits_s / step_s)),
    }
    return Forecast(
        worker_steps_per_s=per_s,
        step_s=step_s,
        limit=max(_limits(known), key=lambda each: each.share),
        shares={name: share for name, share in known.items() if share >= _LEAST_SHARE},
    )


def _limits(shares: dict[str, float]) -> Iterator[Limit]:
    for name, share in shares.items():
        if name in {"compute", "stragglers", "latency"}:
            yield Limit(kind=name, where=name, share=share)  # type: ignore[arg-type]
        elif name.startswith("server"):
            yield Limit(kind="server", where=name, share=share)
        else:
            yield Limit(kind="link", where=name, share=share)
