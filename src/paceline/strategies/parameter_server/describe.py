"""The three parameter servers one can ask for. Each names two rules; the server is the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, final

from paceline.arithmetic.exchange import Servers
from paceline.description import Bytes, Count, NotNegative, NotNegativeInt
from paceline.errors import Problem
from paceline.seats import server_names
from paceline.strategies.base import Flow, Member, Place, Strategy
from paceline.strategies.parameter_server.rules import Bounded, Free, Rules

if TYPE_CHECKING:
    from paceline.strategies.parameter_server.server import Server


class ParameterServer(Strategy, ABC):
    """Servers keep the parameters and apply every update; workers push gradients and pull."""

    servers: Count | Literal["auto"] = 1
    """Over how many servers the parameters are split, in equal parts; `auto`: a server beside every
    worker."""
    chunk_bytes: Bytes = 1 << 20
    """A push travels and is applied in pieces of at most this size: of a small model smaller ones,
    eight of each server's part, but none under 256 KiB unless this is."""
    placement: Literal["beside", "separate"] = "beside"
    """Where a cluster has several nodes: whether a server sits beside a worker, or by itself."""
    overlap: bool = True
    """Whether gradients leave while back-propagation goes on, and parameters come back while the
    next forward pass does, where that can be: what cannot is in the guide to the command line,
    under "What servers overlap"."""
    snapshot_s: NotNegative = 10.0
    """How often a server keeps a snapshot to be started again from, where a seat may be started
    again at all; 0: never. Training waits for a copy at most a fiftieth of the time."""
    sparse: bool = True
    """Whether only the rows of a table that a batch touches travel, or the whole table."""

    @property
    def survives_workers(self) -> bool:
        return True

    @property
    def keeps_servers_away(self) -> str | None:
        if not self.snapshot_s:
            return "without strategy.snapshot_s a server cannot be started again"
        if self._goes_back_alone or self.num_servers == 1 or self.servers_go_back_together:
            return None
        return "several servers that wait for one another cannot go back: use strategy.servers=1"

    @property
    def _goes_back_alone(self) -> bool:
        """Whether one of several servers may go back without the others."""
        return False

    @property
    def num_servers(self) -> int:
        return 1 if self.servers == "auto" else self.servers

    def for_workers(self, num_workers: int) -> Self:
        return replace(self, servers=num_workers) if self.servers == "auto" else self

    def problems(self) -> Iterator[Problem]:
        if self.servers == "auto" and self.servers_apart:
            reason = "puts a server beside every worker; with placement=separate give a number"
            yield Problem("strategy.servers", self.servers, reason)

    @property
    def scripts(self) -> Literal["served"]:
        return "served"

    @property
    def servers_apart(self) -> bool:
        return self.placement == "separate"

    @property
    def fetches_ahead(self) -> bool:
        """Whether the rows of the next batch are asked for while this one computes."""
        return False

    @property
    def moves_rows(self) -> bool:
        return self.sparse

    def flows(self, nodes: Mapping[str, str]) -> Sequence[Flow]:
        pushes = [
            Flow(worker, server, 1 / self.num_servers, worker)
            for worker in nodes
            for server in server_names(self.num_servers)
        ]
        pulls = [Flow(each.receiver, each.sender, each.share, each.worker) for each in pushes]
        return [*pushes, *pulls]

    def pattern(self, num_workers: int) -> Servers:
        return Servers(
            num_servers=self.for_workers(num_workers).num_servers,
            apart=self.servers_apart,
            chunk_bytes=self.chunk_bytes,
            overlap=self.overlap,
            averaged=False,
            moves_rows=self.sparse,
        )

    @abstractmethod
    def rules(self, workers: Sequence[int]) -> Rules:
        """Say how gradients are applied and how far ahead a worker may run."""

    def join(self, place: Place) -> Member:
        from paceline.strategies.parameter_server.member import PsMember

        return PsMember(
            place,
            self.chunk_bytes,
            self.rules(place.roster.worker_numbers),
            overlap=self.overlap,
            prefetch=self.fetches_ahead,
        )

    def server(self, place: Place) -> Server:
        """Make a server that does not run yet: its state can be loaded first."""
        from paceline.strategies.parameter_server.server import Server

        rules = self.rules(place.roster.worker_numbers)
        return Server(place, self.chunk_bytes, rules, snapshot_s=self.snapshot_s)

    def serve(self, place: Place) -> Mapping[str, Any]:
        server = self.server(place)
        place.opened(server)
        return server.run()


class Immediate(ParameterServer, ABC):
    """Each push is an update of its own, applied when it arrives."""

    refuse: Literal["whole", "chunk"] = "whole"
    """What of a gradient that is not finite is refused. `whole`: chunks that are sent early wait
    for the rest of their push, and are applied when all of it is finite. `chunk`: each is applied
    when it arrives, and one that is not finite is left out by itself."""
    prefetch: bool = False
    """Whether the rows of the next batch are asked for while this one computes. They are then one
    update of the worker's own older, which an average of gradients on equal parameters forbids."""

    @property
    def in_step(self) -> bool:
        return False

    @property
    def takes_over_rows(self) -> bool:
        return True

    @property
    def scripts_survive(self) -> bool:
        return True

    @property
    def fetches_ahead(self) -> bool:
        return self.prefetch

    def pattern(self, num_workers: int) -> Servers:
        return replace(super().pattern(num_workers), whole=self.refuse == "whole")


@final
class PsAsync(Immediate):
    """The reply to a push carries the newest parameters."""

    @property
    def name(self) -> str:
        return "ps-async"

    @property
    def _goes_back_alone(self) -> bool:
        return True

    def meaning(self, num_workers: int) -> str:
        return f"asynchronous, {num_workers} workers"

    def rules(self, workers: Sequence[int]) -> Rules:
        del workers
        return Rules(averaged=None, admission=Free(), whole=self.refuse == "whole")


@final
class PsSync(ParameterServer):
    """Update t averages the gradients that the workers computed on the same parameters t."""

    backup: NotNegativeInt = 0
    """How many of the slowest workers each update does without. Workers then no longer make equal
    numbers of steps; the run ends for all when the first has made its own."""

    @property
    def name(self) -> str:
        return "ps-sync"

    @property
    def equals_single(self) -> bool:
        return self.backup == 0

    @property
    def in_step(self) -> bool:
        return self.backup == 0

    @property
    def repeats(self) -> bool:
        return self.backup == 0

    @property
    def keeps_one_optimizer(self) -> str | None:
        if self.backup == 0:
            return None
        return (
            f"with strategy.backup = {self.backup} a worker that is late would have its push of "
            "one averaged with other workers' pushes of another; give backup = 0, ring or ddp"
        )

    def meaning(self, num_workers: int) -> str:
        kind = "strict" if self.backup == 0 else f"{self.backup} backup"
        return f"synchronous, {kind}, {num_workers - self.backup} of {num_workers} gradients"

    def pattern(self, num_workers: int) -> Servers:
        return replace(super().pattern(num_workers), averaged=True, backup=self.backup)

    @property
    def servers_go_back_together(self) -> bool:
        return self.num_servers > 1

    def group_problems(self, num_workers: int) -> Iterator[Problem]:
        if self.backup >= num_workers:
            reason = f"an update needs at least one of the {num_workers} workers"
            yield Problem("strategy.backup", self.backup, reason)

    def rules(self, workers: Sequence[int]) -> Rules:
        return Rules(averaged=len(workers) - self.backup, admission=Free())


@final
class PsSsp(Immediate):
    """Stale synchronous: no worker is more than `staleness` steps ahead of the slowest."""

    staleness: NotNegativeInt | None = None
    """The bound; none: as ps-async."""

    @property
    def name(self) -> str:
        return "ps-ssp"

    @property
    def _goes_back_alone(self) -> bool:
        return self.staleness is None  # else workers might wait for each other at two servers

    def meaning(self, num_workers: int) -> str:
        bound = "no bound" if self.staleness is None else f"at most {self.staleness} steps ahead"
        return f"stale synchronous, {num_workers} workers, {bound}"

    def pattern(self, num_workers: int) -> Servers:
        return replace(super().pattern(num_workers), staleness=self.staleness)

    def rules(self, workers: Sequence[int]) -> Rules:
        whole, bound = self.refuse == "whole", self.staleness
        admission = Free() if bound is None else Bounded(workers, bound)
        return Rules(averaged=None, admission=admission, whole=whole)
