"""`--cluster manual`: a list of hosts by their roles, and `paceline join` typed on each."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Final, Literal, final

from annotated_types import Ge, Le

from paceline.clusters.agents.addresses import address_for, is_loopback
from paceline.clusters.agents.fleet import Launch, Launcher, as_guests
from paceline.clusters.agents.fleets import start_crew
from paceline.clusters.agents.manual.meeting import (
    PORT,
    WHY,
    numeric,
    seed_of,
    split_address,
    token_of,
    who_at,
)
from paceline.clusters.agents.remote import Remote
from paceline.clusters.agents.secret import FILE_VARIABLE, MAKE, take_secret
from paceline.clusters.base import Crew, Job
from paceline.comm.invitation import Invitation
from paceline.comm.roster import Seat
from paceline.comm.switchboard import Switchboard
from paceline.comm.vocabularies import NOTHING
from paceline.description import Positive
from paceline.errors import NodeMissing, Problem, RunError

HostRole = Literal["ps", "worker"]
Port = Annotated[int, Ge(1), Le(65535)]

# The secret of this process, once it was taken out of the environment.
_secrets: Final[list[str]] = []
# All hosts of the command that this process carries out: a run of it may need some of them only.
_listed: Final[list[str]] = []


@final
class Manual(Remote):
    """Machines on each of which somebody types `paceline join`."""

    hosts: dict[HostRole, tuple[str, ...]] = field(default_factory=dict)
    """Who sits where: `worker` and `ps`, each a list of `HOST` or `HOST:PORT`. With a port, that
    worker or server listens there; without one, at any that is free."""
    port: Port = PORT
    """At which port of this machine they are to call."""
    join_s: Positive = 300.0
    """How long there is to type `paceline join` on all hosts."""

    @property
    def name(self) -> str:
        return "manual"

    def problems(self) -> Iterator[Problem]:
        if not self.hosts.get("worker"):
            reason = 'name at least one: [cluster.hosts] worker = ["10.0.0.11"]'
            yield Problem("cluster.hosts.worker", self.hosts.get("worker", ()), reason)
        for role, entries in self.hosts.items():
            for entry in entries:
                try:
                    split_address(entry)
                except ValueError as error:
                    yield Problem(f"cluster.hosts.{role}", entry, str(error))
        given = [each for entries in self.hosts.values() for each in entries]
        for entry in sorted({each for each in given if given.count(each) > 1}):
            if _port_of(entry) is not None:
                yield Problem("cluster.hosts", entry, "is named twice: each needs its own port")

    def by_node(self) -> dict[str, str]:
        """Give the host of each node, in the order of the list: workers first."""
        entries = [*self.hosts.get("worker", ()), *self.hosts.get("ps", ())]
        hosts = dict.fromkeys(split_address(each)[0] for each in entries)
        return {f"node{index}": host for index, host in enumerate(hosts)}

    def seats(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> list[Seat]:
        del servers_apart  # the list says where they are
        nodes = {host: node for node, host in self.by_node().items()}
        workers = [
            Seat("worker", index, nodes[split_address(entry)[0]])
            for index, entry in enumerate(self._entries("worker", num_workers))
        ]
        servers = [
            Seat("server", index, nodes[split_address(entry)[0]])
            for index, entry in enumerate(self._entries("ps", num_servers))
        ]
        used = {seat.node for seat in (*workers, *servers)}
        watched = [node for node in nodes.values() if node in used]
        monitors = [Seat("monitor", index, node) for index, node in enumerate(watched)]
        return [*workers, *servers, *monitors]

    def _entries(self, role: HostRole, number: int) -> list[str]:
        """Give the host of each seat of a role; servers without any sit with the workers."""
        entries = self.hosts.get(role) or self.hosts.get("worker", ())
        return [entries[index % len(entries)] for index in range(number)] if entries else []

    def ports(self, seats: Sequence[Seat]) -> dict[str, int]:
        """Give where each seat listens, for those whose entry says so."""
        found = {}
        for seat in seats:
            entries = self.hosts.get("worker" if seat.role == "worker" else "ps", ())
            if seat.role in {"worker", "server"} and seat.index < len(entries):
                found[seat.name] = _port_of(entries[seat.index])
        return {name: port for name, port in found.items() if port is not None}

    def host_of(self, node: str) -> str:
        return self.by_node()[node]

    def workers_meant(self, num_servers: int, *, servers_apart: bool = False) -> int | None:
        del num_servers, servers_apart
        return len(self.hosts.get("worker", ())) or None

    def for_one(self) -> Manual:
        return dataclasses.replace(self, hosts={"worker": self.hosts.get("worker", ())[:1]})

    def group_problems(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> Iterator[Problem]:
        del servers_apart
        workers, servers = self.hosts.get("worker", ()), self.hosts.get("ps", ())
        if len(workers) != num_workers:
            reason = f"a list of {len(workers)} is for that many workers, not {num_workers}"
            yield Problem("cluster.hosts.worker", workers, reason)
        if num_servers and servers and len(servers) != num_servers:
            reason = f"there are {num_servers} servers: strategy.servers={len(servers)}"
            yield Problem("cluster.hosts.ps", servers, reason)

    def commands(self, arguments: Sequence[str]) -> str:
        at = f"{self.address or 'DRIVER'}:{self.port}"
        lines = [
            "# Once: make the run's secret. Copy the file to every machine, this one too.",
            MAKE,
            "",
            "# On this machine, which drives the run; DRIVER is its address.",
            f"{FILE_VARIABLE}=paceline.secret paceline {shlex.join(arguments)}",
            "",
        ]
        for host in self.by_node().values():
            lines.append(f"# On {host}:")
            lines.append(f"{FILE_VARIABLE}=paceline.secret paceline join {at}")
        return "\n".join(lines)

    @contextlib.contextmanager
    def assembled(self) -> Iterator[bool]:
        hosts = [] if [*self.problems()] else [*self.by_node().values()]
        _listed.extend(hosts)
        try:
            yield True
        finally:
            _listed.clear()

    def verify(self) -> None:
        _own_secret()

    def start(self, job: Job) -> Crew:
        return start_crew(
            job,
            _ManualLauncher(self),
            join_s=self.join_s,
            encrypts=self.encrypt,
            interface=self.interface,
            ports=self.ports(job.seats),
        )


def _port_of(entry: str) -> int | None:
    try:
        return split_address(entry)[1]
    except ValueError:
        return None


def _own_secret() -> str:
    """Give the secret of this process, which is in its environment once only."""
    if not _secrets:
        _secrets.append(take_secret(os.environ, WHY))
    return _secrets[0]


@final
class _ManualLauncher(Launcher):
    """Starts nobody: waits for hosts at an address that they know."""

    def __init__(self, cluster: Manual) -> None:
        self._cluster = cluster
        self._hosts = cluster.by_node()

    def open_board(self, address: str, expected: Mapping[str, bytes]) -> Switchboard:
        try:
            return Switchboard(
                NOTHING,
                address,
                self._cluster.port,
                identity_seed=seed_of(_own_secret()),
                guests=as_guests(expected),
            )
        except OSError as error:
            at = f"cluster.port = {self._cluster.port}"
            raise RunError(f"{at}: cannot listen at {address}: {error.strerror}") from error

    def expected(self) -> dict[str, bytes]:
        """All hosts of the list: `paceline join` is typed on each, before all runs."""
        found = {}
        for host in dict.fromkeys([*self._hosts.values(), *_listed]):
            with contextlib.suppress(OSError):  # the run that needs it says so
                address = self._known_as(host)
                found[who_at(address)] = token_of(_own_secret(), address)
        return found

    def who(self, node: str) -> str:
        return who_at(self._address(node))

    def token(self, node: str) -> bytes:
        return token_of(_own_secret(), self._address(node))

    def _address(self, node: str) -> str:
        try:
            return self._known_as(self._hosts[node])
        except OSError as error:
            raise NodeMissing(
                self.label(node), f"its name is not known here: {error.strerror}"
            ) from error

    def _known_as(self, host: str) -> str:
        """Give the address by which a host knows itself: the one from which it calls.

        This machine's own name often stands for a loopback address here.
        """
        address = numeric(host)
        called_at = numeric(self._called_at()) if is_loopback(address) else address
        return address if is_loopback(called_at) else called_at

    def _called_at(self) -> str:
        """Give where all are to call: at the address that leads to the first host of the list.

        To the first that is another machine, if there is one. Raises `OSError`.
        """
        first, *others = dict.fromkeys([*self._hosts.values(), *_listed])
        return self._cluster.address or address_for(first, others)

    def start(self, node: str, invitation: Invitation) -> Launch:
        del node, invitation  # the host makes its own from the secret
        return _Typed()

    def own_address(self, node: str) -> str:
        try:
            return self._called_at()
        except OSError as error:
            first = next(iter(self._hosts.values()))
            raise NodeMissing(
                self.label(node), f"no way leads to {first}: {error.strerror}"
            ) from error

    def label(self, node: str) -> str:
        return f"{node} ({self._hosts[node]})"

    def identity(self, node: str) -> Hashable:
        return (type(self), self.label(node), self._cluster.port, self._cluster.address)


@final
class _Typed(Launch):
    """Somebody else's doing: it ends when its line does."""

    def failure(self) -> str | None:
        return None

    def end(self) -> None:
        pass
