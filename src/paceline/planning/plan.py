"""The plan: every candidate on every number of machines, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from paceline.arithmetic.all_reduce import around_ring
from paceline.arithmetic.closed_form import busiest_of
from paceline.arithmetic.costs import Costs
from paceline.arithmetic.exchange import AllReducePattern, NoExchange, Servers
from paceline.arithmetic.forecast import Situation, forecast
from paceline.arithmetic.memory import node_bytes
from paceline.arithmetic.network import LinkRate, Network
from paceline.arithmetic.step import ComputeStep
from paceline.planning.candidates import Candidate, candidates
from paceline.planning.scenario import Scenario

PlanProgress = Callable[[int, int], None]
_HOUR_S: Final = 3600.0


@final
@dataclass(frozen=True, kw_only=True)
class Basis:
    """What predictions rest on."""

    title: str
    """What is trained, and on what."""
    step: ComputeStep
    batch: int
    costs: Costs
    num_states: int = 0
    """Values that the optimizer keeps for each parameter."""
    notes: tuple[str, ...] = ()
    """What a reader should know of it."""
    samples: int | None = None
    """Rows after which training is over, where a run's curve says so."""
    is_script: bool = False
    """Whether it has a loop of its own, which exchanges after its backward pass."""


@final
@dataclass(frozen=True, kw_only=True)
class PlanRow:
    """What is predicted of one candidate."""

    machines: int
    workers: int
    strategy: str
    """Its name in the catalogue."""
    servers: int
    placement: str
    label: str
    in_step: bool
    """Whether all workers' gradients meet in each update, as one worker's would."""
    samples_per_s: float
    speed_up: float
    """Over one machine alone."""
    efficiency: float
    step_s: float
    limit: str
    """compute, link, server, stragglers or latency."""
    limit_where: str
    limit_share: float
    node_bytes_per_step: float
    """What the busiest node sends, and as much receives, in a step of all workers."""
    memory_bytes: float
    """Of parameters, gradients, states and what waits, on the fullest node."""
    seconds: float | None
    """To train on the wanted number of rows."""
    cost: float | None
    cost_per_million: float | None
    """To train on a million rows, whatever the wanted number is."""


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """All rows, and what they rest on."""

    scenario: Scenario
    basis: Basis
    rows: tuple[PlanRow, ...]

    def at(self, machines: int) -> list[PlanRow]:
        """Give the rows of so many machines, the fastest first."""
        found = [row for row in self.rows if row.machines == machines]
        return sorted(found, key=lambda row: row.samples_per_s, reverse=True)

    def table(self) -> dict[str, Any]:
        """Give all as plain values, for JSON."""
        step = self.basis.step
        return {
            "title": self.basis.title,
            "batch": self.basis.batch,
            "compute_s": step.compute_s,
            "update_s": step.update_s,
            "model_bytes": step.with_whole_table().num_bytes,
            "touched_rows": None if step.rows is None else step.rows.num_rows,
            "costs": self.basis.costs.values(),
            "notes": list(self.basis.notes),
            "link_bits_per_s": self.scenario.link,
            "latency_s": self.scenario.latency,
            "rows": [asdict(row) for row in self.rows],
        }


def network_of(scenario: Scenario) -> Network:
    """Give the network as the arithmetic takes it."""
    return Network(
        link=LinkRate(bits_per_s=scenario.link),
        links={node: LinkRate(bits_per_s=rate) for node, rate in scenario.link_numbers.items()},
        latency_s=scenario.latency,
        uplink=None if scenario.uplink is None else LinkRate(bits_per_s=scenario.uplink),
        rack=scenario.rack,
    )


def make_plan(scenario: Scenario, basis: Basis, progress: PlanProgress = lambda *_: None) -> Plan:
    """Predict every candidate; `progress` is told how many are done, of how many."""
    wanted = [
        each
        for count in scenario.machines
        for each in candidates(scenario, count, is_script=basis.is_script)
    ]
    network, rows = network_of(scenario), []
    alone = alone_per_s(scenario, basis)
    for number, each in enumerate(wanted):
        progress(number, len(wanted))
        rows.append(_row(each, scenario, basis, network, alone))
    return Plan(scenario=scenario, basis=basis, rows=tuple(rows))


def alone_per_s(scenario: Scenario, basis: Basis) -> float:
    """Rows per second of one machine by itself, its workers independent of each other."""
    situation = Situation(
        step=basis.step,
        network=network_of(scenario),
        num_workers=scenario.workers_per_node,
        num_nodes=1,
    )
    return basis.batch * forecast(NoExchange(), situation).worker_steps_per_s


def _row(
    candidate: Candidate, scenario: Scenario, basis: Basis, network: Network, alone: float
) -> PlanRow:
    made = forecast(
        candidate.exchange,
        Situation(
            step=basis.step,
            network=network,
            num_workers=candidate.num_workers,
            num_nodes=candidate.num_nodes,
            costs=basis.costs,
            slowness=scenario.slowness(candidate.num_nodes),
        ),
    )
    per_s = basis.batch * made.worker_steps_per_s
    samples = scenario.samples or basis.samples
    seconds = samples / per_s if samples else None
    machines = candidate.num_machines
    per_row = None if scenario.price is None else machines * scenario.price / _HOUR_S / per_s
    return PlanRow(
        machines=machines,
        workers=candidate.num_workers,
        strategy=candidate.strategy.name,
        servers=candidate.strategy.num_servers,
        placement="separate" if candidate.strategy.servers_apart else "beside",
        label=candidate.label,
        in_step=candidate.strategy.in_step,
        samples_per_s=per_s,
        speed_up=per_s / alone,
        efficiency=per_s / alone / machines,
        step_s=made.step_s,
        limit=made.limit.kind,
        limit_where=made.limit.where,
        limit_share=made.limit.share,
        node_bytes_per_step=_node_bytes_per_step(candidate, basis.step),
        memory_bytes=node_bytes(
            candidate.exchange,
            basis.step,
            num_states=basis.num_states,
            workers=scenario.workers_per_node,
            num_workers=candidate.num_workers,
        ),
        seconds=seconds,
        cost=None if per_row is None or not samples else samples * per_row,
        cost_per_million=None if per_row is None else 1e6 * per_row,
    )


def _node_bytes_per_step(candidate: Candidate, step: ComputeStep) -> float:
    exchange, per_node = candidate.exchange, candidate.num_workers // candidate.num_nodes
    moves_rows = isinstance(exchange, Servers) and exchange.moves_rows
    moved = step if moves_rows else step.with_whole_table()
    if isinstance(exchange, Servers):
        return busiest_of(moved, candidate.num_workers, exchange, per_node)
    if isinstance(exchange, AllReducePattern):
        ranks = candidate.num_nodes if exchange.shares_memory else candidate.num_workers
        return around_ring(ranks) * moved.num_bytes
    return 0.0


def best_rows(plan: Plan) -> Iterator[PlanRow]:
    """Give of each strategy on each number of machines the quickest of its servers' places."""
    for machines in plan.scenario.machines:
        seen: set[str] = set()
        for row in plan.at(machines):
            if row.strategy not in seen:
                seen.add(row.strategy)
                yield row
