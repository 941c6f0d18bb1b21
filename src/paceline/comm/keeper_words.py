"""What the driver says to keepers, agents and zygotes, which start seats, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, final

from paceline.comm.invitation import Invitation
from paceline.comm.roster import Seat
from paceline.comm.ticket import Orders
from paceline.comm.vocabularies import vocabulary
from paceline.comm.words import Word

# --- the driver to a keeper, and back


@final
@dataclass(frozen=True, kw_only=True)
class KeepSeats(Word):
    """The run to keep. The seats' ends of their lines are handed over with it, in order."""

    orders: Orders
    seats: list[Seat]
    shares_memory: bool
    """Whether seats of one node share memory."""
    site: str | None = None
    """`module:class` of what makes nodes, where they are not this machine itself."""
    plan: dict[str, Any] | None = None
    """The settings of the site."""
    invitations: list[Invitation] | None = None
    """For the seats, in order, where they call the driver themselves."""
    label: str | None = None
    """What the user calls the node, where it is not the driver's own machine."""
    interface: str | None = None
    """Which network interface of the node to use, if not the one that leads to the driver."""
    late: list[str] = field(default_factory=list)
    """Seats that are not started yet."""
    ports: dict[str, int] = field(default_factory=dict)
    """Where seats are to listen, by name; others choose a port that is free."""


@final
@dataclass(frozen=True, kw_only=True)
class Carry(Word):
    """Part of a user's file that travels with the run; all of them come before `KeepSeats`."""

    path: str
    """Where to put it, below a folder of the run."""
    name: str
    """What the spec calls it: its path on the driver's machine."""
    data: str
    """In base64."""
    digest: str | None = None
    """With the last part: SHA-256 of the whole file, in hex."""


@final
@dataclass(frozen=True)
class Dump(Word):
    """Have a seat write to its log where in its code it is."""

    seat: str


@final
@dataclass(frozen=True, kw_only=True)
class Again(Word):
    """Start a seat, in this incarnation; what is left of the one before is ended first.

    Its end of a line is handed over with it.
    """

    seat: str
    incarnation: int


@final
@dataclass(frozen=True, kw_only=True)
class Signal(Word):
    """Send a seat a signal."""

    seat: str
    number: int


@final
@dataclass(frozen=True, kw_only=True)
class Slow(Word):
    """Let a seat run only every so many-th moment; 1: as fast as it can."""

    seat: str
    factor: float


@final
@dataclass(frozen=True, kw_only=True)
class Cut(Word):
    """Take a node's link down, or bring it up again."""

    node: str
    is_down: bool


@final
@dataclass(frozen=True)
class KeeperReady(Word):
    """A keeper's first word; on another machine with how far its clock is ahead of the driver's."""

    pid: int
    clock_offset_s: float | None = None
    clock_uncertainty_s: float | None = None


@final
@dataclass(frozen=True, kw_only=True)
class LinkReport:
    """A node's link as configured and as measured before the run, in bits per second.

    Of a machine of its own also how far its clock is ahead of the driver's.
    """

    node: str
    asked: float | None = None
    sent: float | None = None
    received: float | None = None
    clock_offset_s: float | None = None
    clock_uncertainty_s: float | None = None


@final
@dataclass(frozen=True, kw_only=True)
class PairReport:
    """One node's way to another, as measured before the run."""

    sender: str
    receiver: str
    bits_per_s: float
    round_trip_s: float


@final
@dataclass(frozen=True, kw_only=True)
class Built(Word):
    """The nodes are there, and this is what they are like."""

    links: list[LinkReport]
    warnings: list[str]
    is_capped: bool


@final
@dataclass(frozen=True)
class Cannot(Word):
    """The nodes could not be made."""

    reason: str


@final
@dataclass(frozen=True)
class Seated(Word):
    """All seats have been started."""


@final
@dataclass(frozen=True)
class Left(Word):
    """A seat's process has ended; the reason is empty where it ended well."""

    seat: str
    reason: str
    incarnation: int = 0


# --- an agent to the driver, and back


@final
@dataclass(frozen=True, kw_only=True)
class Arrived(Word):
    """An agent's first word: what its node is like."""

    pid: int
    host: str
    """The name that the machine has for itself."""
    address: str
    """Which of its addresses leads to the driver."""
    cores: float
    versions: dict[str, str]


@final
@dataclass(frozen=True, kw_only=True)
class Serve(Word):
    """Fork a keeper for a run; it is to call the driver."""

    invitation: Invitation
    imports: list[str]


@final
@dataclass(frozen=True, kw_only=True)
class Expect(Word):
    """Open a door for another node, which will measure the way between the two."""

    token: str
    """In hex; the other node knows it too."""
    interface: str | None
    """Which network interface to use, if not the one that leads to the driver."""


@final
@dataclass(frozen=True, kw_only=True)
class Expecting(Word):
    """Where the door is."""

    token: str
    """Of what it is the answer to: who was waited for too long answers later, out of turn."""
    address: str
    port: int


@final
@dataclass(frozen=True, kw_only=True)
class Probe(Word):
    """Call another node, and measure the way to it."""

    token: str
    address: str
    port: int


@final
@dataclass(frozen=True, kw_only=True)
class Probed(Word):
    """What came from the other node, in bits per second, and how long a round trip takes."""

    token: str
    received: float
    round_trip_s: float


@final
@dataclass(frozen=True, kw_only=True)
class Unprobed(Word):
    """The way could not be measured."""

    token: str
    reason: str


# --- the driver to a zygote


@final
@dataclass(frozen=True, kw_only=True)
class Warm(Word):
    """Import what keepers will need, before there is one to fork."""

    imports: list[str]
    path: list[str]


@final
@dataclass(frozen=True, kw_only=True)
class Fork(Word):
    """Fork a keeper, in these surroundings. Its end of a line is handed over with it."""

    imports: list[str]
    path: list[str]
    environment: dict[str, str | None]
    """What to set; None: to remove."""
    folder: str | None
    """Where to go, unless it is there already."""


# --- on lines that hand over descriptors


@final
@dataclass(frozen=True)
class Ends(Word):
    """So many descriptors come, some of them with this word; then the word that they belong to."""

    count: int


TO_KEEPERS: Final = vocabulary([Ends, Carry, KeepSeats, Dump, Again, Signal, Slow, Cut])
FROM_KEEPERS: Final = vocabulary([KeeperReady, Built, Cannot, Seated, Left])
TO_AGENTS: Final = vocabulary([Serve, Expect, Probe])
FROM_AGENTS: Final = vocabulary([Arrived, Expecting, Probed, Unprobed])
TO_ZYGOTES: Final = vocabulary([Ends, Warm, Fork])
