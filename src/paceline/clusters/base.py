"""The seam every cluster is written behind: seats in, a crew out."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast, final

from paceline.comm.line import Line, SeatLine
from paceline.description import Description
from paceline.errors import Problem

if TYPE_CHECKING:
    from paceline.clusters.zygote import Zygote
    from paceline.comm.base import Channel
    from paceline.comm.meter import Meter
    from paceline.comm.shared import Host

SEAT_VARIABLE: Final = "PACELINE_SEAT"
"""Set in the environment of processes that sit, by the cluster that starts them."""

Role = Literal["worker", "server", "monitor"]


@final
@dataclass(frozen=True)
class Seat:
    """A role on a node."""

    role: Role
    index: int
    node: str

    @property
    def name(self) -> str:
        return f"{self.role}{self.index}"


@final
@dataclass(frozen=True, kw_only=True)
class Job:
    """What a cluster is asked to start: the same entry function on every seat."""

    run_dir: Path
    run_key: bytes
    """Sixteen random bytes that tell this run's messages from any other's."""
    entry: str
    """`module:function`; called with a `Berth` in each seat, returns its exit code."""
    seats: Sequence[Seat]
    threads: int
    """How many threads each seat's arithmetic may use."""
    imports: Sequence[str] = ()
    """Modules that every seat will need, for a cluster that can import them once for all."""
    dilation: float = 1.0
    """How many times slower than asked for links are, where time is virtual."""
    zygote: Zygote | None = None
    """Where to have its processes forked, if something has imported torch for several runs."""
    spec: Any = None
    """The live description, for a cluster that can hand it over without writing it down."""

    @property
    def module(self) -> str:
        """The module that the entry function is in."""
        return self.entry.partition(":")[0]

    def log_path(self, seat: Seat) -> Path:
        return self.run_dir / "logs" / f"{seat.name}.log"


@final
@dataclass(frozen=True, kw_only=True)
class Berth:
    """What a seat's process knows when it begins: who it is, and whom it can talk to."""

    seat: Seat
    run_dir: Path
    line: SeatLine
    open_channel: Callable[[], Channel]
    host: Host | None = None
    """What the seats of this one's node share, where they do."""
    address: str = "127.0.0.1"
    """Where other nodes reach this one."""
    meter: Meter | None = None
    """What the node's link has carried, for its monitor."""
    spec: Any = None


@final
@dataclass(frozen=True)
class Departure:
    """A seat whose process has ended."""

    seat: str
    reason: str
    """Empty when it ended well."""


@final
@dataclass(frozen=True, kw_only=True)
class LinkReport:
    """A node's link as configured and as measured before the run, in bits per second."""

    node: str
    asked: float
    sent: float
    received: float


class Crew(ABC):
    """The started seats of one run. Owned by the driver's thread."""

    lines: Mapping[str, Line]
    """The driver's end of each seat's line."""
    links: Sequence[LinkReport] = ()
    """What is known of the nodes' links, as soon as it is."""
    warnings: Sequence[str] = ()
    """What was asked for and could not be done, as soon as it is known."""
    is_capped: bool = True
    """Whether nodes have no more processor than was asked for, so far as is known."""
    is_seated: bool = True
    """Whether all processes have been started, so far as is known."""

    def dump_stack(self, seat: str) -> None:
        """Have a seat write to its log where in its code it is, if the cluster can; does not wait.

        In the form of `faulthandler`, and whatever the seat is doing: it may be in a C function
        that does not return.
        """
        del seat

    @abstractmethod
    def departures(self) -> list[Departure]:
        """Say which seats have ended since this was last asked; does not wait."""

    @abstractmethod
    def end(self) -> None:
        """End every process that is still there, and return when they are gone. Idempotent."""


class Cluster(Description, ABC):
    """Where the processes of a run live. `start` makes it live.

    Whatever way the driver ends, kill -9 included, every process the cluster started ends
    within seconds and nothing of it stays behind.
    """

    shares_process: ClassVar[bool] = False
    """Whether seats live in the driver's own process, and so know its live objects."""

    @property
    def encrypts(self) -> bool:
        """Whether what seats send to each other through their channels is encrypted."""
        return False

    def seats(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> list[Seat]:
        """Give every seat a node: all on one, unless the cluster has several.

        `servers_apart` asks that no server shares a node with a worker.
        """
        del servers_apart
        workers = [Seat("worker", index, "node0") for index in range(num_workers)]
        servers = [Seat("server", index, "node0") for index in range(num_servers)]
        return [*workers, *servers, Seat("monitor", 0, "node0")]

    def workers_meant(self, num_servers: int, *, servers_apart: bool = False) -> int | None:
        """Say how many workers it is asked to hold, where nobody says it; None: it cannot tell."""
        del num_servers, servers_apart
        return None

    def for_one(self) -> Cluster:
        """Give the same for a single worker, without what it says of nodes that this one lacks."""
        return self

    def group_problems(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> Iterator[Problem]:
        """Say what is wrong with having so many seats."""
        del num_workers, num_servers, servers_apart
        yield from ()

    def dilation_problems(self, dilation: float) -> Iterator[Problem]:
        """Say what is wrong with its links where time goes so many times slower; 1: as it is."""
        del dilation
        yield from ()

    def verify(self) -> None:
        """Look whether it can be started on this machine. Raises `SpecError` where it cannot."""

    def cores_of(self, node: str) -> float | None:
        """Give how many cores a node may use; None: all there are."""
        del node
        return None

    @abstractmethod
    def start(self, job: Job) -> Crew:
        """Start every seat."""


def entry_function(path: str) -> Callable[[Berth], int]:
    """Import the function that a job's `entry` names."""
    module, _, name = path.partition(":")
    return cast("Callable[[Berth], int]", getattr(importlib.import_module(module), name))
