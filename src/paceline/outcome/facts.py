"""What is known of a run before it starts: facts.json, by which anyone can seal it."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, final

from paceline.errors import StoreError
from paceline.reading import schema
from paceline.seats import Role, parsed, role_of, worker_names
from paceline.training.metrics import Better

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# More than any machine has; to seal a run takes time for each of them.
MOST_WORKERS: Final = 10_000


@final
@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a run before it starts; kept beside it, so that anyone can seal it."""

    workload: str
    strategy: str
    cluster: str
    meaning: str
    """What is computed, in words."""
    num_workers: int
    batch_size: int
    seed: int
    target: str | None
    seats: dict[str, list[str]]
    """Workers and servers by node."""
    num_cores: dict[str, float]
    """Cores by node."""
    tensorboard: bool
    better: dict[str, Better] = dataclasses.field(default_factory=dict)
    """Which way each metric is better, those first by which runs are compared first."""
    flows: list[tuple[str, str, float, str]] | None = None
    """What travels in a step by theory: sender, receiver, share of all parameters, and the worker
    whose steps count. None where there is no closed form."""
    in_step: bool | None = None
    """Whether one global step is one step of every worker."""
    chunk_bytes: int | None = None
    """Parameter servers: the size of the pieces in which a push travels; None without servers."""
    compute: Literal["real", "replayed"] = "real"
    device: str = "cpu"
    dilation: float = 1.0
    latency_s: float = 0.0
    """By how much emulated nodes delay what one sends another, one way."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """What a reader of the result should know of how it was asked for."""
    threads: int | None = None
    threads_why: str | None = None
    node_threads: dict[str, int] = dataclasses.field(default_factory=dict)
    """Compute threads per worker by node, where nodes are machines of their own."""
    sent_files: dict[str, str] = dataclasses.field(default_factory=dict)
    """The user's own files that went to other machines, each with its SHA-256."""

    parent: str | None = None
    """The run that this one goes on from."""
    parent_step: int | None = None
    """How far that run was in the checkpoint."""
    attempts: tuple[str, ...] = ()
    """The runs that lost a seat before, each of which the next one was started after."""

    @property
    def workers(self) -> list[str]:
        """All workers, by number."""
        return self._named("worker")

    @property
    def servers(self) -> list[str]:
        """All servers, by number."""
        return self._named("server")

    def _named(self, role: Role) -> list[str]:
        seats = [seat for each in self.seats.values() for seat in each if role_of(seat) == role]
        return sorted(seats, key=parsed)

    def with_nodes(
        self, num_cores: dict[str, float], node_threads: dict[str, int], *, is_given: bool
    ) -> Facts:
        """Give the same with what nodes said of themselves, where they are other machines.

        `is_given`: the user said how many threads there are to be.
        """
        if not node_threads:
            return self
        listed = ", ".join(f"{number} on {node}" for node, number in node_threads.items())
        return dataclasses.replace(
            self,
            num_cores={**self.num_cores, **num_cores},
            node_threads=node_threads,
            threads=min(node_threads.values()),
            threads_why=None if is_given else f"as each node's own cores allow: {listed}",
        )

    def table(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Self:
        """Read what `table` gave.

        Raises `StoreError` where a value is not of its field's type, or where parts contradict
        each other: a run is sealed by them, and by nothing else.
        """
        try:
            facts = schema.read(cls, table)
            facts.check()
        except ValueError as error:
            raise StoreError(f"not the facts of a run: {error}") from error
        return facts

    def check(self) -> None:
        """See that workers, seats and nodes go together; files are named after them."""
        seats = [seat for each in self.seats.values() for seat in each]
        odd = [name for name in (*self.seats, *seats) if not _NAME.fullmatch(name)]
        if odd:
            raise ValueError(f"seats: {odd[0]!r} is not a name")
        workers = {seat for seat in seats if role_of(seat) == "worker"}
        if not 1 <= self.num_workers == len(workers) <= MOST_WORKERS:
            raise ValueError(f"num_workers = {self.num_workers}: {len(workers)} have a seat")
        if workers != set(worker_names(self.num_workers)):
            raise ValueError("seats: workers are not numbered")
        if self.num_cores.keys() != self.seats.keys() or any(
            cores <= 0 for cores in self.num_cores.values()
        ):
            raise ValueError("num_cores: not of the nodes that there are")
        ends = {end for flow in self.flows or () for end in (flow[0], flow[1], flow[3])}
        if not ends <= set(seats):
            raise ValueError("flows: not between seats that there are")
