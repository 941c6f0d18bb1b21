"""The seam every cluster is written behind: seats in, a crew out."""

from __future__ import annotations

import contextlib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast, final

from paceline.clusters.luggage import Packed
from paceline.comm.credentials import make_password
from paceline.comm.keeper_words import LinkReport, PairReport
from paceline.comm.line import Line
from paceline.comm.roster import Seat
from paceline.comm.seat_line import SeatLine
from paceline.comm.ticket import Medium, Orders, Resumed, Ticket
from paceline.comm.words import Word
from paceline.description import Description
from paceline.errors import Problem

if TYPE_CHECKING:
    from paceline.clusters.zygote import Zygote
    from paceline.comm.base import Channel
    from paceline.comm.host_memory import Host
    from paceline.comm.meter import Meter
    from paceline.sinks.base import Sink

SEAT_VARIABLE: Final = "PACELINE_SEAT"
"""Set in the environment of processes that sit, by the cluster that starts them."""


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
    text: str | None = None
    """What is to be done, as the entry function reads it: a spec in TOML, or a word."""
    detect_s: float = 5.0
    """After how many seconds of silence a seat is given up."""
    late: Collection[str] = ()
    """Seats that are not started with the others, but by `Crew.restart`."""
    imports: Sequence[str] = ()
    """Modules that every seat will need, for a cluster that can import them once for all."""
    dilation: float = 1.0
    """How many times slower than asked for links are, where time is virtual."""
    zygote: Zygote | None = None
    """Where to have its processes forked, if something has imported torch for several runs."""
    spec: Any = None
    """The live description, for a cluster that can hand it over without writing it down."""
    luggage: Sequence[Packed] = ()
    """The user's own files, for a cluster whose nodes do not see them."""
    threads_on: Callable[[float, int], int] | None = None
    """Gives the threads of a seat by the cores and the number of workers of its node."""
    resumed: Resumed | None = None
    """The checkpoint that the run goes on from."""
    tell: Callable[[str], None] = lambda _: None
    """Called with what is waited for, while seats are started; a cluster may call it often."""

    @property
    def module(self) -> str:
        """The module that the entry function is in."""
        return self.entry.partition(":")[0]

    def orders(self, *, medium: Medium, encrypts: bool, sees_folder: bool = True) -> Orders:
        """What all seats are told alike; the password is made for them.

        Seats that do not see the run's folder send what they keep to the driver.
        """
        return Orders(
            entry=self.entry,
            run_key=self.run_key.hex(),
            password=make_password(),
            encrypts=encrypts,
            medium=medium,
            threads=self.threads,
            folder=str(self.run_dir) if sees_folder else None,
            detect_s=self.detect_s,
            spec=self.text,
            resumed=self.resumed,
        )


@final
@dataclass(frozen=True, kw_only=True)
class Berth:
    """A seat's process as its cluster leaves it to the entry function: its ticket, and what lives.

    It knows nothing of strategies: a monitor has one too. What a strategy is told is its `Place`.
    """

    ticket: Ticket
    line: SeatLine
    sink: Sink
    """Where that goes what it keeps."""
    open_channel: Callable[[], Channel]
    host: Host | None = None
    """What the seats of this one's node share, where they do."""
    meter: Meter | None = None
    """What the node's link has carried, for its monitor."""
    spec: Any = None
    """The live description, where the driver's own objects can be reached."""

    @property
    def seat(self) -> Seat:
        return self.ticket.seat


@final
@dataclass(frozen=True)
class Departure:
    """A seat whose process has ended."""

    seat: str
    reason: str
    """Empty when it ended well."""
    incarnation: int = 0
    """How many times the seat was started before."""
    is_final: bool = False
    """Whether it was given up with its node: whatever it may still say is not waited for."""


class Crew(ABC):
    """The started seats of one run. Owned by the driver's thread."""

    lines: Mapping[str, Line]
    """The driver's end of each seat's line."""

    @property
    def links(self) -> Sequence[LinkReport]:
        """What is known of the nodes' links, as soon as it is."""
        return ()

    pairs: Sequence[PairReport] = ()
    """What each node's way to each other carries, where that was measured."""

    @property
    def warnings(self) -> Sequence[str]:
        """What was asked for and could not be done, as soon as it is known."""
        return ()

    @property
    def is_capped(self) -> bool:
        """Whether nodes have no more processor than was asked for, so far as is known."""
        return True

    @property
    def cores(self) -> Mapping[str, float]:
        """How many cores each node has, where that is not this machine's number."""
        return {}

    @property
    def labels(self) -> Mapping[str, str]:
        """What each node is called with its host, where nodes are machines."""
        return {}

    @property
    def threads(self) -> Mapping[str, int]:
        """How many threads the seats of each node have, where nodes differ."""
        return {}

    @property
    def listeners(self) -> Sequence[str]:
        """Where the driver listens for those that it has started."""
        return ()

    @property
    def num_refused(self) -> int:
        """How many callers of the driver were refused so far: nobody had invited them."""
        return 0

    @property
    def is_seated(self) -> bool:
        """Whether all processes have been started, so far as is known."""
        return True

    def dump_stack(self, seat: str) -> None:
        """Have a seat write to its log where in its code it is, if the cluster can; does not wait.

        In the form of `faulthandler`, and whatever the seat is doing: it may be in a C function
        that does not return.
        """
        del seat

    def restart(self, seat: str, incarnation: int) -> Line | None:
        """Start a seat once more, in a process of its own with a new line; None: it cannot.

        Whatever is left of the one before is ended first. Does not wait for the new one.
        """
        del seat, incarnation
        return None

    def strike(self, word: Word) -> None:
        """Have a fault injected, or ended: one of `Signal`, `Slow`, `Cut`; does not wait."""
        del word

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
    is_elsewhere: ClassVar[bool] = False
    """Whether nodes are other machines: with files, cores and data of their own."""
    can_restart: ClassVar[bool] = True
    """Whether a seat that was lost can be started again."""

    @property
    def encrypts(self) -> bool:
        """Whether what seats send to each other through their channels is encrypted."""
        return False

    @property
    def holds_messages_s(self) -> float:
        """For how long seats hold messages of other nodes: a latency that the network has not."""
        return 0.0

    @property
    def delays_s(self) -> float:
        """By how much whoever emulates nodes delays what one sends another, one way."""
        return 0.0

    @property
    def trusts_network(self) -> bool:
        """Whether nodes may have connections that are not encrypted, where some cannot be."""
        return True

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

    def cannot_strike(self, kind: str) -> str | None:
        """Say why a kind of fault cannot be injected here; None: it can."""
        return f"{self.name} cannot inject faults of kind {kind}"

    def plain_problems(self, what: str, num_nodes: int) -> Iterator[Problem]:
        """Say what is wrong with connections that cannot be encrypted, between so many nodes."""
        if not self.trusts_network and num_nodes > 1:
            reason = (
                f"{what} opens its own connections between machines, which cannot be encrypted: "
                "set it to true on a network that no stranger can reach"
            )
            yield Problem("cluster.trusted_network", False, reason)

    def loss_problems(self, on_failure: str | None) -> Iterator[Problem]:
        """Say what is wrong with what the loss of a worker is to mean."""
        if on_failure == "replace" and not self.can_restart:
            reason = f"{self.name} cannot start a worker again on its machines"
            yield Problem("on_failure", on_failure, reason, ("abort", "go-on", "restart"))

    def dilation_problems(self, dilation: float) -> Iterator[Problem]:
        """Say what is wrong with its links where time goes so many times slower; 1: as it is."""
        del dilation
        yield from ()

    def commands(self, arguments: Sequence[str]) -> str | None:
        """Write what is to be typed on each machine, where that is how it is started."""
        del arguments
        return None

    @contextlib.contextmanager
    def assembled(self) -> Iterator[bool]:
        """Have the nodes there for all runs of a command; yields whether this process drives them.

        Where every machine is given the same command, all but one only serve: to those it yields
        when everything is over. Raises `RunError` there if it failed.
        """
        yield True

    def verify(self) -> None:
        """Look whether it can be started on this machine. Raises `SpecError` where it cannot."""

    def host_of(self, node: str) -> str | None:
        """Name the machine that is a node, as its user knows it; None: all are this machine."""
        del node
        return None

    def cores_of(self, node: str) -> float | None:
        """Give how many cores a node may use; None: all there are."""
        del node
        return None

    def warm_up(self, zygote: Zygote, imports: Sequence[str]) -> None:
        """Begin what takes long and needs no job yet, where there is something; does not wait.

        `imports` are modules that seats will need.
        """
        del zygote, imports

    @abstractmethod
    def start(self, job: Job) -> Crew:
        """Start every seat."""


def entry_function(path: str) -> Callable[[Berth], int]:
    """Import the function that a job's `entry` names."""
    module, _, name = path.partition(":")
    return cast("Callable[[Berth], int]", getattr(importlib.import_module(module), name))
