"""The emulated cluster as one asks for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache, partial
from typing import Final, final

from paceline.clusters.base import Cluster, Crew, Job
from paceline.clusters.crew import KeptCrew
from paceline.clusters.emulated.caps import remove_left
from paceline.clusters.emulated.plan import NodePlan, SitePlan
from paceline.clusters.placing import placed
from paceline.clusters.zygote import Zygote
from paceline.comm.roster import Seat
from paceline.description import Count, Duration, Positive, Rate
from paceline.errors import Problem, SpecError
from paceline.system.attempts import attempt

# Of less, the 32 KiB on their way to a link would delay a peer's sign of life for as long as
# it may be silent. More does not fit in the 32 bits that tbf has for bytes a second.
_LEAST_BITS_PER_S: Final = 100e3
_MOST_BITS_PER_S: Final = 34e9
# What the keeper makes nodes with.
_IMPORTS: Final = ("pyroute2",)
_REMEDY: Final = (
    "run as root, or allow user namespaces (`paceline doctor` says how); "
    "the cluster `local` needs neither"
)


@final
class Emulated(Cluster):
    """Nodes on this machine, each with a network stack and a link of its own."""

    nodes: Count | None = None
    """Number of nodes; unless given, one per worker, and one per server where

    servers have their own. Without `num_workers` it is also the number of workers.
    """
    link: Rate = 1e9
    """Bandwidth of a node's link in each direction: `1gbit`, `100mbit`, or bits per second."""
    links: dict[str, Rate] = field(default_factory=dict)
    """Links that differ from the others, by node: `cluster.links.node2=100mbit`."""
    latency_s: Duration = 0.0
    """Delay of every packet: `5ms`, or seconds. Where the kernel has no `sch_netem`, of every
    message between nodes instead, which `ddp`'s are not."""
    cpus: Positive | dict[str, Positive] | None = None
    """How many cores a node may use, for all or by node: `cluster.cpus.node2=0.25`."""
    encrypt: bool = False
    """Whether messages between nodes are encrypted, as they are between real machines."""

    @property
    def name(self) -> str:
        return "emulated"

    def seats(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> list[Seat]:
        num_apart = num_servers if servers_apart else 0
        num_nodes = self.nodes or num_workers + num_apart
        nodes = [f"node{index}" for index in range(num_nodes)]
        return placed(nodes, num_workers, num_servers, servers_apart=servers_apart)

    def workers_meant(self, num_servers: int, *, servers_apart: bool = False) -> int | None:
        num_apart = num_servers if servers_apart else 0
        return None if self.nodes is None else max(1, self.nodes - num_apart)

    def for_one(self) -> Emulated:
        cpus = (_first_alone(self.cpus) or None) if isinstance(self.cpus, Mapping) else self.cpus
        return dataclasses.replace(self, nodes=None, links=_first_alone(self.links), cpus=cpus)

    def dilation_problems(self, dilation: float) -> Iterator[Problem]:
        links = {"link": self.link} | {f"links.{node}": each for node, each in self.links.items()}
        slowed = "" if dilation == 1 else f" after dilation = {dilation:g}"
        for name, rate in links.items():
            if not _LEAST_BITS_PER_S <= rate / dilation <= _MOST_BITS_PER_S:
                reason = f"the kernel holds links to rates from 100kbit to 34gbit{slowed}"
                yield Problem(f"cluster.{name}", rate, reason)

    def group_problems(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> Iterator[Problem]:
        num_apart = num_servers if servers_apart else 0
        num_nodes = self.nodes or num_workers + num_apart
        if num_nodes <= num_apart:
            reason = f"{num_apart} of them hold only servers; workers need at least one more"
            yield Problem("cluster.nodes", self.nodes, reason)
        if num_nodes > num_workers + num_apart:
            apart = f", and servers need {num_apart} more" if num_apart else ""
            each = "1 node" if num_workers == 1 else f"{num_workers} nodes"
            reason = f"num_workers = {num_workers} needs {each}{apart}; the rest would stay empty"
            yield Problem("cluster.nodes", self.nodes, reason)
        names = tuple(f"node{index}" for index in range(num_nodes))
        named = {"links": self.links, "cpus": self.cpus if isinstance(self.cpus, Mapping) else {}}
        for key, table in named.items():
            for node in sorted(table.keys() - set(names)):
                yield Problem(f"cluster.{key}.{node}", table[node], "no such node", names)

    def cores_of(self, node: str) -> float | None:
        return self.cpus.get(node) if isinstance(self.cpus, Mapping) else self.cpus

    def verify(self) -> None:
        refused = _refusal(0.0)
        if refused:
            reason = f"cannot create network namespaces here: {refused}; {_REMEDY}"
            raise SpecError([Problem("cluster", self.name, reason)])

    @property
    def holds_messages_s(self) -> float:
        return self.latency_s if self.latency_s and _refusal(self.latency_s) else 0.0

    @property
    def delays_s(self) -> float:
        return self.latency_s

    def cannot_strike(self, kind: str) -> str | None:
        del kind
        return None

    def warm_up(self, zygote: Zygote, imports: Sequence[str]) -> None:
        zygote.warm([*imports, *_IMPORTS])

    def start(self, job: Job) -> Crew:
        names = sorted({seat.node for seat in job.seats}, key=_number)
        held_s = self.holds_messages_s
        plan = SitePlan(
            nodes=[
                NodePlan(
                    name=name,
                    bits_per_s=self.links.get(name, self.link) / job.dilation,
                    latency_s=(self.latency_s - held_s) * job.dilation,
                    cpus=self.cores_of(name),
                )
                for name in names
            ],
            dilation=job.dilation,
            mark=job.run_key.hex()[:8],
        )
        return KeptCrew(
            job,
            dataclasses.replace(
                job.orders(medium="tcp", encrypts=self.encrypt),
                latency_s=held_s * job.dilation,
            ),
            shares_memory=True,
            site="paceline.clusters.emulated.site:EmulatedSite",
            plan=dataclasses.asdict(plan),
            imports=_IMPORTS,
            sweep=partial(remove_left, plan.mark),
        )


def _first_alone(by_node: Mapping[str, float]) -> dict[str, float]:
    return {node: value for node, value in by_node.items() if node == "node0"}


@cache
def _refusal(latency_s: float) -> str:
    """Why nodes cannot be made here, if they cannot; a study asks before each of its runs."""
    from paceline.clusters.emulated.network import try_out

    return attempt(partial(try_out, latency_s), timeout_s=60)  # a busy machine is slow to import


def _number(node: str) -> int:
    return int(node.removeprefix("node"))
