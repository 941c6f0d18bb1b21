"""Predictions held against emulated runs: the run that a prediction is of, and what came of it.

Compute is replayed and time slowed as far as it takes for this host to carry the traffic, so that
what is measured is the strategy and the links, not this host. Its own processor then costs as many
times less as time is slowed, and so it does in the prediction.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final, final

from paceline.arithmetic.all_reduce import around_ring, num_messages
from paceline.arithmetic.exchange import AllReducePattern, NoExchange, Servers
from paceline.arithmetic.forecast import Situation, forecast
from paceline.arithmetic.network import Network
from paceline.clusters.emulated.bursts import Bursts
from paceline.clusters.emulated.describe import Emulated
from paceline.errors import Problem, SpecError
from paceline.planning.advice import per_s_text
from paceline.planning.plan import network_of
from paceline.planning.scenario import parse_list
from paceline.spec import RunSpec

if TYPE_CHECKING:
    from paceline.arithmetic.costs import Costs
    from paceline.arithmetic.step import ComputeStep
    from paceline.outcome.results import Result
    from paceline.planning.candidates import Candidate
    from paceline.planning.plan import Basis
    from paceline.planning.scenario import Scenario
    from paceline.store.stored import StoredRun

# How much real traffic this host is asked to carry, all links together and on one connection.
BUDGET_BITS_PER_S: Final = 2e9
_ONE_CONNECTION_BITS_PER_S: Final = 0.7e9
# What of this host's processors is asked for, and what a step costs each seat of it in any case.
_PROCESSORS: Final = 0.3
_SEAT_S: Final = 1e-3
MOST_EMULATED: Final = 16
"""More nodes than this are more than a usual machine emulates."""
_NOT_EMULATED: Final = {
    "uplink": "emulated nodes have no racks: leave --uplink out",
}
_SILENT_S: Final = 30.0
"""Real seconds that a seat may say nothing before a run counts as hung, and steps beside them."""
_SILENT_STEPS: Final = 10
_QUIET: Final = {"tensorboard": False, "model": False, "monitor": False, "interval_s": 1e-6}


@final
@dataclass(frozen=True, kw_only=True)
class Verified:
    """A prediction, and what an emulated run made, or why it made nothing."""

    label: str
    machines: int
    predicted_per_s: float
    measured_per_s: float | None = None
    """Rows per second; None where the run was not possible, or failed."""
    dilation: float = 1.0
    host_limited: bool = False
    failed: str = ""
    """Why nothing was measured."""

    @property
    def error(self) -> float | None:
        """By which part of what was measured the prediction is off."""
        return self.predicted_per_s / self.measured_per_s - 1 if self.measured_per_s else None

    @property
    def sentence(self) -> str:
        if self.measured_per_s is None or self.error is None:
            return f"{self.label} on {self.machines} emulated nodes: not verified: {self.failed}"
        limited = "; this host could not keep up, so it says little" if self.host_limited else ""
        measured, predicted = map(per_s_text, (self.measured_per_s, self.predicted_per_s))
        return (
            f"{self.label} on {self.machines} emulated nodes: {measured} rows/s measured, "
            f"{predicted} predicted ({100 * self.error:+.1f} %; dilated "
            f"{self.dilation:g}x{limited})"
        )


def verification_problems(table: Mapping[str, Any]) -> Iterator[Problem]:
    """Say why what is asked for cannot be verified here, before anything is measured."""
    workload = table.get("workload")
    name = workload.get("name") if isinstance(workload, Mapping) else workload
    if workload is None:
        reason = "a model given by figures has no workload that could be emulated"
        yield Problem("--verify", True, reason)
    elif str(name).endswith(".py"):
        yield Problem("--verify", True, "a script's own loop cannot be replayed")
    for key, reason in _NOT_EMULATED.items():
        if table.get(key):
            yield Problem("--verify", True, reason)
    counts = parse_list(table.get("machines", "2"))
    if isinstance(counts, tuple) and not any(map(_can_be_emulated, counts)):
        reason = f"needs a number of machines from 2 to {MOST_EMULATED}: this machine emulates them"
        yield Problem("--verify", True, reason)
    try:
        Emulated().verify()
    except SpecError as error:
        yield from (Problem("--verify", True, each.reason) for each in error.problems)


def _can_be_emulated(count: object) -> bool:
    return str(count).isdecimal() and 1 < int(str(count)) <= MOST_EMULATED


def dilation_for(candidate: Candidate, link_bits_per_s: float, budget: float) -> float:
    """Say how much slower time must go for this host to carry the traffic."""
    full, connections = _full_links(candidate)
    if not full:
        return 1.0
    return max(
        1.0,
        full * link_bits_per_s / budget,
        link_bits_per_s / connections / _ONE_CONNECTION_BITS_PER_S,
    )


def dilation_of(candidate: Candidate, scenario: Scenario, basis: Basis, budget: float) -> float:
    """Say how much slower time must go for this host to carry the traffic, and to handle it.

    Short steps of many processes are bounded by the host's processors, not by its links.
    """
    dilation = dilation_for(candidate, scenario.link, budget)
    network, costs = network_of(scenario), basis.costs
    slowness = scenario.slowness(candidate.num_nodes)
    per_s = predicted_steps_per_s(
        candidate, basis.step, network, costs, dilation=dilation, slowness=slowness
    )
    cores = os.cpu_count() or 1
    busy = per_s * _handling_s(candidate, basis.step, costs) * BUDGET_BITS_PER_S / budget
    return round(max(dilation, busy / (_PROCESSORS * cores)), 2)


def _handling_s(candidate: Candidate, step: ComputeStep, costs: Costs) -> float:
    """How long processors are busy with one step of one worker, its servers' part included."""
    exchange, size = candidate.exchange, step.num_bytes
    if isinstance(exchange, NoExchange):
        return _SEAT_S
    if isinstance(exchange, AllReducePattern):
        messages = num_messages(size, exchange, candidate.num_workers)
        sent = around_ring(candidate.num_workers) * size
    else:
        messages = 2 * max(exchange.num_servers, -(-size // exchange.chunk_of(size)))
        sent = 2.0 * size
    moved_s = 2 * (messages * costs.message_s + sent * costs.copy_s_per_byte)
    seats = 1 + exchange.num_servers / candidate.num_workers if isinstance(exchange, Servers) else 1
    return seats * _SEAT_S + moved_s + sent * (costs.add_s_per_byte + costs.apply_s_per_byte)


def _full_links(candidate: Candidate) -> tuple[int, int]:
    """How many links are full at once, and by how many connections each."""
    exchange = candidate.exchange
    if isinstance(exchange, AllReducePattern):
        return (candidate.num_nodes, 1) if candidate.num_nodes > 1 else (0, 1)
    if isinstance(exchange, Servers) and candidate.num_machines > 1:
        return exchange.num_servers, max(1, candidate.num_workers - 1)
    return 0, 1


def emulated_spec(
    spec: RunSpec,
    candidate: Candidate,
    scenario: Scenario,
    *,
    device: str,
    dilation: float,
    worker_steps: int,
    step_s: float,
) -> RunSpec:
    """Describe the run that a prediction is of; `step_s` is how long a step of it should take.

    Nobody watches such a run, so one that hangs is given up.
    """
    cluster: dict[str, Any] = {"name": "emulated", "link": scenario.link}
    if candidate.num_workers != candidate.num_nodes:
        cluster["nodes"] = candidate.num_machines
    if scenario.links:
        cluster["links"] = dict(scenario.links)
    if scenario.latency:
        cluster["latency_s"] = scenario.latency
    table = {
        "workload": spec.workload,
        "strategy": candidate.strategy,
        "cluster": cluster,
        "optimizer": spec.optimizer,
        "record": _QUIET,
        "device": device,
        "dilation": dilation,
        "num_workers": candidate.num_workers,
        "batch": spec.batch,
        "dtype": spec.dtype,
        "worker_steps": worker_steps,
        "when_stuck": "stop",
        # Virtual seconds: a run waits for them times its dilation.
        "stuck_s": _SILENT_S / dilation + _SILENT_STEPS * step_s,
    }
    return RunSpec.from_table(table)


def worker_slowness(candidate: Candidate, scenario: Scenario) -> tuple[float, ...]:
    """Say how many times as long each worker's steps take; nothing where all are alike."""
    nodes, workers = candidate.num_nodes, candidate.num_workers
    slowness = scenario.slowness(nodes)
    homes = [each * nodes // workers for each in range(workers)]
    return tuple(slowness[home] for home in homes if home < len(slowness))


def emulated_network(network: Network, num_nodes: int, dilation: float) -> Network:
    """Add what an emulated link does and a real one does not: a little more after a pause."""
    rates = [network.link_of(each).bits_per_s / dilation for each in range(num_nodes)]
    slowest = min(rates)
    burst_s = Bursts(rates).of(slowest) / (slowest / 8)
    return dataclasses.replace(network, burst_s=burst_s / dilation)


def predicted_steps_per_s(
    candidate: Candidate,
    step: ComputeStep,
    network: Network,
    costs: Costs,
    *,
    dilation: float,
    slowness: tuple[float, ...] = (),
) -> float:
    """Predict worker steps per second of an emulated run, in virtual seconds."""
    situation = Situation(
        step=step,
        network=emulated_network(network, candidate.num_machines, dilation),
        num_workers=candidate.num_workers,
        num_nodes=candidate.num_nodes,
        costs=costs.scaled(1 / dilation),
        slowness=slowness,
    )
    return forecast(candidate.exchange, situation).worker_steps_per_s


def as_measured(network: Network, result: Result) -> Network:
    """Give a network the rates that the run found its links to have before it began.

    Emulated links carry a few per cent less than they are asked to, which is no fault of a plan.
    """
    return with_share(network, carried_share(result))


def carried_share(result: Result) -> float:
    """Say what part of their nominal rate a run's links carried before it began."""
    shares = [
        min(each.link_sent_bits_per_s, each.link_received_bits_per_s) / each.link_bits_per_s
        for each in result.nodes
        if each.link_bits_per_s and each.link_sent_bits_per_s and each.link_received_bits_per_s
    ]
    return min(1.0, median(shares)) if shares else 1.0


def with_share(network: Network, share: float) -> Network:
    """Give a network whose links carry that part of their rates."""
    return dataclasses.replace(
        network,
        link=network.link.times(share),
        links={node: link.times(share) for node, link in network.links.items()},
    )


def measured_steps_per_s(run: StoredRun) -> float:
    """Read what a run made from its rows: each worker's first to its last but one.

    The first step opens connections, the last compares parameters.
    """
    total = 0.0
    for worker in run.result.workers:
        own = run.steps.filter(seat=worker.name).sort("time_s")[:-1]
        if len(own) < 2:  # so quick that steps shared a row
            total += worker.worker_steps / worker.train_s
            continue
        steps = own["worker_steps"][-1] - own["worker_steps"][0]
        total += steps / (own["time_s"][-1] - own["time_s"][0])
    return total
