"""`--cluster ray`: nodes of a Ray cluster, KubeRay's too."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, final

from paceline.clusters.agents.addresses import address_towards
from paceline.clusters.agents.fleet import Launch, Launcher
from paceline.clusters.agents.fleets import start_crew
from paceline.clusters.agents.ray.broker import Broker, PlacedNode
from paceline.clusters.agents.ray.sealing import sealed_for
from paceline.clusters.agents.remote import Remote
from paceline.clusters.agents.versions import differences
from paceline.clusters.base import Crew, Job
from paceline.clusters.placing import empty_nodes, placed
from paceline.comm.invitation import Invitation
from paceline.comm.roster import Seat
from paceline.description import Count, Positive
from paceline.errors import NodeMissing, Problem, SpecError

INSTALL: Final = "Ray is not installed for this Python: pip install 'paceline[ray]'"
# Nodes that this process has of Ray, by Ray's own names for them.
_held: Final[set[str]] = set()


@final
class Ray(Remote):
    """Nodes of a Ray cluster, each with Paceline installed for Ray's Python."""

    nodes: Count | None = None
    """Number of nodes; unless given, one per worker, and one per server where servers have their
    own. Without `num_workers` it is also the number of workers."""
    ray_address: str = "auto"
    """Where Ray is: `auto` on one of its machines, `HOST:6379`, or `ray://HOST:10001`."""
    cpus: Positive | None = None
    """How many CPUs to ask Ray for on each node, and to use; unless given, all it has there."""
    resources: dict[str, Positive] = field(default_factory=dict)
    """What else to ask for on each node, as Ray names it: `GPU`, or resources of your own."""
    join_s: Positive = 60.0
    """How long Ray has to place the nodes, and then each of them to come."""

    @property
    def name(self) -> str:
        return "ray"

    def problems(self) -> Iterator[Problem]:
        if "CPU" in self.resources:
            yield Problem("cluster.resources", self.resources, "cluster.cpus is for CPUs")

    def seats(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> list[Seat]:
        number = self.nodes or num_workers + (num_servers if servers_apart else 0)
        names = [f"node{index}" for index in range(number)]
        return placed(names, num_workers, num_servers, servers_apart=servers_apart)

    def workers_meant(self, num_servers: int, *, servers_apart: bool = False) -> int | None:
        num_apart = num_servers if servers_apart else 0
        return None if self.nodes is None else max(1, self.nodes - num_apart)

    def for_one(self) -> Ray:
        return dataclasses.replace(self, nodes=None)

    def group_problems(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> Iterator[Problem]:
        num_apart = num_servers if servers_apart else 0
        for reason in empty_nodes(self.nodes or num_workers + num_apart, num_workers, num_apart):
            yield Problem("cluster.nodes", self.nodes, reason)

    def verify(self) -> None:
        if importlib.util.find_spec("ray") is None:
            raise SpecError([Problem("cluster.name", self.name, INSTALL)])

    def start(self, job: Job) -> Crew:
        return start_crew(
            job,
            _RayLauncher(self),
            join_s=self.join_s,
            encrypts=self.encrypt,
            interface=self.interface,
        )


def offers_of(address: str, patience_s: float = 30.0) -> list[dict[str, Any]]:
    """Say what each node of a Ray cluster offers; `problem` is why it cannot be used, if so.

    Raises `SpecError` without Ray, `RunError` if that cluster does not answer.
    """
    Ray().verify()
    broker = Broker(address, patience_s=patience_s)
    try:
        found = broker.offers()
    finally:
        broker.close()
    return [_offer(each) for each in found]


def _offer(told: Mapping[str, Any]) -> dict[str, Any]:
    versions = told["versions"]
    return {
        "host": told["host"],
        "address": told["address"],
        "free": {name: now for name, (now, _) in told["shown"].items()},
        "total": {name: total for name, (_, total) in told["shown"].items()},
        "versions": versions,
        "problem": told.get("problem") or _problem(told["shown"], versions),
    }


def _problem(shown: Mapping[str, Any], versions: Mapping[str, str]) -> str | None:
    if not shown.get("CPU", (0, 0))[1]:
        return "it has no CPUs for work"
    return next(differences(versions), None)


@final
class _RayLauncher(Launcher):
    """Has Ray place nodes first: where they are is known only then."""

    def __init__(self, cluster: Ray) -> None:
        self._cluster = cluster
        self._placed: dict[str, tuple[Broker, PlacedNode]] = {}

    def prepare(self, nodes: Sequence[str], tell: Callable[[str], None]) -> Callable[[], None]:
        """Place nodes, none of them where this process has one already."""
        broker = Broker(
            self._cluster.ray_address,
            num_nodes=len(nodes),
            cpus=self._cluster.cpus,
            resources=self._cluster.resources,
            others=sorted(_held),
            patience_s=self._cluster.join_s,
        )
        try:
            found = sorted(broker.placed(tell), key=lambda each: (each.host, each.address))
        except BaseException:
            broker.close()
            raise
        ids = {each.id for each in found}
        _held.update(ids)
        pairs = zip(nodes, found, strict=True)
        self._placed |= {node: (broker, each) for node, each in pairs}

        def give_back() -> None:
            broker.close()
            _held.difference_update(ids)

        return give_back

    def identity(self, node: str) -> Hashable:
        resources = tuple(sorted(self._cluster.resources.items()))
        return (type(self), node, self._cluster.ray_address, self._cluster.cpus, resources)

    def most_cores(self, node: str) -> float:
        return self._placed[node][1].cpus

    def start(self, node: str, invitation: Invitation) -> Launch:
        broker, found = self._placed[node]
        broker.serve(found.index, sealed_for(found.key, invitation.written(), found.index))
        return _RayLaunch(broker, found.index)

    def own_address(self, node: str) -> str:
        try:
            return self._cluster.address or address_towards(self._placed[node][1].address)
        except OSError as error:
            raise NodeMissing(
                self.label(node), f"no way leads there from here: {error.strerror}"
            ) from error

    def label(self, node: str) -> str:
        return f"{node} ({self._placed[node][1].host})"


@final
class _RayLaunch(Launch):
    def __init__(self, broker: Broker, index: int) -> None:
        self._broker, self._index = broker, index

    def failure(self) -> str | None:
        return self._broker.failure(self._index)

    def end(self) -> None:
        """Leave it alone: the agent ends with its line, and its actor when all is given back."""
