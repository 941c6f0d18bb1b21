"""`--cluster torchrun`: the same command on every machine, of which the one with rank 0 drives."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final, final

from paceline.clusters.agents.fleets import start_crew
from paceline.clusters.agents.remote import Remote
from paceline.clusters.agents.seal import Seal
from paceline.clusters.agents.secret import take_secret
from paceline.clusters.agents.torchrun.commands import commands_for
from paceline.clusters.agents.torchrun.driving import Assembly, TorchrunLauncher
from paceline.clusters.agents.torchrun.place import (
    COMMAND,
    RankPlace,
    forget_place,
    node_of,
    num_nodes,
    place_of,
)
from paceline.clusters.agents.torchrun.serving import serve_driver
from paceline.clusters.base import Crew, Job
from paceline.clusters.placing import empty_nodes, placed
from paceline.comm.roster import Seat
from paceline.description import Count
from paceline.errors import PacelineError, Problem, SpecError

_OPEN: Final = "torchrun's store is open to anyone"
# The nodes of the command that this process drives: torchrun brings them together once.
_assembly: Assembly | None = None


def _nodes_here() -> int:
    return num_nodes(os.environ) if _assembly is None else _assembly.place.num_nodes


@final
class Torchrun(Remote):
    """Machines on each of which torchrun starts the same command; so do srun and Kubernetes."""

    nodes: Count = field(default_factory=_nodes_here)
    """How many machines; as torchrun says, unless given."""

    @property
    def name(self) -> str:
        return "torchrun"

    def seats(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> list[Seat]:
        names = [node_of(rank) for rank in range(self.nodes)]
        return placed(names, num_workers, num_servers, servers_apart=servers_apart)

    def workers_meant(self, num_servers: int, *, servers_apart: bool = False) -> int | None:
        return max(1, self.nodes - (num_servers if servers_apart else 0))

    def for_one(self) -> Torchrun:
        return dataclasses.replace(self, nodes=1)

    def group_problems(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> Iterator[Problem]:
        num_apart = num_servers if servers_apart else 0
        for reason in empty_nodes(self.nodes, num_workers, num_apart):
            yield Problem("cluster.nodes", self.nodes, reason)

    def commands(self, arguments: Sequence[str]) -> str:
        return commands_for(self.nodes, arguments)

    @contextlib.contextmanager
    def assembled(self) -> Iterator[bool]:
        place = place_of(os.environ)
        seal = Seal(take_secret(os.environ, _OPEN), place.run_id)
        forget_place(os.environ)
        if place.rank:
            serve_driver(place, seal, self.join_s)
            yield False
        else:
            with self._driving(place, seal):
                yield True

    @contextlib.contextmanager
    def _driving(self, place: RankPlace, seal: Seal) -> Iterator[None]:
        """Drive all runs of a command, and tell the other nodes how they ended."""
        global _assembly  # noqa: PLW0603 - torchrun brings nodes together once in a process
        place.announce("this host drives the run, and keeps it")
        _assembly = Assembly(place, seal, self.join_s)
        code, reason = 1, "the driver failed"
        try:
            _assembly.gather()
            yield
            code, reason = 0, ""
        except PacelineError as error:
            code, reason = error.exit_code, str(error)
            raise
        except KeyboardInterrupt:
            code, reason = 130, "stopped by the user"
            raise
        finally:
            _assembly.end(code, reason)
            _assembly = None

    def verify(self) -> None:
        if _assembly is None:
            reason = f"only a command that torchrun starts has nodes: {COMMAND}"
            raise SpecError([Problem("cluster", self.name, reason)])
        if self.nodes > _assembly.place.num_nodes:
            reason = f"torchrun brought {_assembly.place.num_nodes} together: --nnodes {self.nodes}"
            raise SpecError([Problem("cluster.nodes", self.nodes, reason)])

    def start(self, job: Job) -> Crew:
        assert _assembly is not None, "verify has looked"
        return start_crew(
            job,
            TorchrunLauncher(_assembly, self.address),
            join_s=self.join_s,
            encrypts=self.encrypt,
            interface=self.interface,
        )
