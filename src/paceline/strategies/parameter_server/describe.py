"""The three parameter servers one can ask for. Each names two rules; the server is the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, final

from paceline.description import Bytes, Count, NotNegativeInt
from paceline.errors import Problem
from paceline.strategies.base import Flow, Member, Place, Strategy
from paceline.strategies.parameter_server.rules import Bounded, Free, Rules


class ParameterServer(Strategy, ABC):
    """Servers keep the parameters and apply every update; workers push gradients and pull."""

    servers: Count = 1
    """Over how many servers the parameters are split, in equal parts."""
    chunk_bytes: Bytes = 1 << 20
    """A push travels and is applied in pieces of this size."""
    placement: Literal["beside", "separate"] = "beside"
    """Where a cluster has several nodes: whether a server sits beside a worker, or by itself."""
    sparse: bool = True
    """Whether only the rows of a table that a batch touches travel, or the whole table."""

    @property
    def num_servers(self) -> int:
        return self.servers

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

    def flows(self, nodes: Sequence[str]) -> Sequence[Flow]:
        workers = [f"worker{rank}" for rank in range(len(nodes))]
        servers = [f"server{index}" for index in range(self.servers)]
        pushes = [
            Flow(worker, server, 1 / self.servers, worker)
            for worker in workers
            for server in servers
        ]
        pulls = [Flow(each.receiver, each.sender, each.share, each.worker) for each in pushes]
        return [*pushes, *pulls]

    @abstractmethod
    def rules(self, num_workers: int) -> Rules:
        """Say how gradients are applied and how far ahead a worker may run."""

    def join(self, place: Place) -> Member:
        from paceline.strategies.parameter_server.member import PsMember

        return PsMember(
            place,
            self.chunk_bytes,
            self.rules(place.num_workers),
            prefetch=self.fetches_ahead,
        )

    def serve(self, place: Place) -> Mapping[str, Any]:
        from paceline.strategies.parameter_server.server import Server

        return Server(place, self.chunk_bytes, self.rules(place.num_workers)).run()


class Immediate(ParameterServer, ABC):
    """Each push is an update of its own, applied when it arrives."""

    prefetch: bool = False
    """Whether the rows of the next batch are asked for while this one computes. They are then one
    update of the worker's own older, which an average of gradients on equal parameters forbids."""

    @property
    def fetches_ahead(self) -> bool:
        return self.prefetch


@final
class PsAsync(Immediate):
    """The reply to a push carries the newest parameters."""

    @property
    def name(self) -> str:
        return "ps-async"

    def meaning(self, num_workers: int) -> str:
        return f"asynchronous, {num_workers} workers"

    def rules(self, num_workers: int) -> Rules:
        del num_workers
        return Rules(averaged=None, admission=Free())


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
    def repeats(self) -> bool:
        return self.backup == 0

    def meaning(self, num_workers: int) -> str:
        kind = "strict" if self.backup == 0 else f"{self.backup} backup"
        return f"synchronous, {kind}, {num_workers - self.backup} of {num_workers} gradients"

    def group_problems(self, num_workers: int) -> Iterator[Problem]:
        if self.backup >= num_workers:
            reason = f"an update needs at least one of the {num_workers} workers"
            yield Problem("strategy.backup", self.backup, reason)

    def rules(self, num_workers: int) -> Rules:
        return Rules(averaged=num_workers - self.backup, admission=Free())


@final
class PsSsp(Immediate):
    """Stale synchronous: no worker is more than `staleness` steps ahead of the slowest."""

    staleness: NotNegativeInt | None = None
    """The bound; none: as ps-async."""

    @property
    def name(self) -> str:
        return "ps-ssp"

    def meaning(self, num_workers: int) -> str:
        bound = "no bound" if self.staleness is None else f"at most {self.staleness} steps ahead"
        return f"stale synchronous, {num_workers} workers, {bound}"

    def rules(self, num_workers: int) -> Rules:
        if self.staleness is None:
            return Rules(averaged=None, admission=Free())
        return Rules(averaged=None, admission=Bounded(num_workers, self.staleness))
