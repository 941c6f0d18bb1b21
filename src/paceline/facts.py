"""What is known of a run before it starts: facts.json, by which anyone can seal it."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, final

from paceline import schema
from paceline.errors import StoreError
from paceline.metrics import Better

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
    compute: Literal["real", "replayed"] = "real"
    device: str = "cpu"
    dilation: float = 1.0
    notes: list[str] = dataclasses.field(default_factory=list)
    """What a reader of the result should know of how it was asked for."""
    threads: int | None = None
    threads_why: str | None = None

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
        workers = {seat for seat in seats if seat.startswith("worker")}
        if not 1 <= self.num_workers == len(workers) <= MOST_WORKERS:
            raise ValueError(f"num_workers = {self.num_workers}: {len(workers)} have a seat")
        if workers != {f"worker{index}" for index in range(self.num_workers)}:
            raise ValueError("seats: workers are not numbered")
        if self.num_cores.keys() != self.seats.keys() or any(
            cores <= 0 for cores in self.num_cores.values()
        ):
            raise ValueError("num_cores: not of the nodes that there are")
        ends = {end for flow in self.flows or () for end in (flow[0], flow[1], flow[3])}
        if not ends <= set(seats):
            raise ValueError("flows: not between seats that there are")
