"""Processes on this machine, forked by a keeper that has imported torch once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, final

from paceline.clusters.base import Cluster, Crew, Job
from paceline.clusters.crew import KeptCrew
from paceline.clusters.zygote import Zygote
from paceline.comm.ticket import Medium
from paceline.errors import Problem


@final
class Local(Cluster):
    """One process a seat, on this machine."""

    transport: Literal["shared", "zmq", "zmq-tcp"] = "shared"
    """How parameters and gradients travel: through shared memory, or as messages, over Unix sockets
    or over TCP on the loopback device, which is what they would do between hosts."""
    encrypt: bool = False
    """Whether messages are encrypted. Keys are made for the run, and never written down. Messages
    are taken from seats of this run only, encrypted or not."""

    @property
    def name(self) -> str:
        return "local"

    @property
    def encrypts(self) -> bool:
        return self.encrypt

    def problems(self) -> Iterator[Problem]:
        if self.encrypt and self.transport == "shared":
            reason = "shared memory sends no messages to encrypt"
            yield Problem("cluster.transport", self.transport, reason, ("zmq", "zmq-tcp"))

    def cannot_strike(self, kind: str) -> str | None:
        return "all nodes are this machine: there is no link to cut" if kind == "cut" else None

    def warm_up(self, zygote: Zygote, imports: Sequence[str]) -> None:
        zygote.warm(imports)

    def start(self, job: Job) -> Crew:
        medium: Medium = "tcp" if self.transport == "zmq-tcp" else "unix"
        orders = job.orders(medium=medium, encrypts=self.encrypt)
        return KeptCrew(job, orders, shares_memory=self.transport == "shared")
