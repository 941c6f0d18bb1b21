"""Agents as plain processes of this machine, each in a folder of its own: no ssh is needed."""

import os
import subprocess
import sys
from collections.abc import Hashable
from pathlib import Path
from typing import ClassVar

from paceline.clusters.agents.crew import AgentsCrew
from paceline.clusters.agents.fleet import Launch, Launcher
from paceline.clusters.agents.fleets import Fleets
from paceline.clusters.base import Cluster, Crew, Job
from paceline.clusters.placing import placed
from paceline.comm.invitation import Invitation
from paceline.comm.roster import Seat

FLEETS = Fleets()
"""Several runs have the same agents, which import torch once."""


class Apart(Cluster):
    """Nodes that share nothing but the program."""

    is_elsewhere: ClassVar[bool] = True
    folder: str
    """Where each node has a folder to be in, with its own `tmp`."""
    nodes: int = 2
    address: str = "127.0.0.1"
    interface: str | None = None

    def seats(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> list[Seat]:
        names = [f"node{index}" for index in range(self.nodes)]
        return placed(names, num_workers, num_servers, servers_apart=servers_apart)

    def start(self, job: Job) -> Crew:
        nodes = list(dict.fromkeys(seat.node for seat in job.seats))
        return AgentsCrew(
            job,
            FLEETS.of(nodes, Joining(Path(self.folder), self.address), 60),
            encrypts=True,
            let_go=lambda: None,
            interface=self.interface,
        )


class Joining(Launcher):
    """Starts `paceline join -`."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address

    def start(self, node: str, invitation: Invitation) -> Launch:
        return Joined(self.folder / node, invitation)

    def own_address(self, node: str) -> str:
        return self.address

    def label(self, node: str) -> str:
        return f"{node} (host-{node})"

    def identity(self, node: str) -> Hashable:
        return (node, self.address)


class Joined(Launch):
    """One of them."""

    def __init__(self, folder: Path, invitation: Invitation) -> None:
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "paceline", "join", "-"],
            stdin=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder / "tmp"), "PACELINE_NODE": folder.name},
            text=True,
        )
        self.process.stdin.write(invitation.written() + "\n")
        self.process.stdin.flush()

    def failure(self) -> str | None:
        code = self.process.poll()
        return None if code is None else f"exit code {code}"

    def end(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
