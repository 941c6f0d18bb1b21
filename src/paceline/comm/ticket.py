"""What a seat's process knows when it begins: plain values, so that they can travel anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, final

from paceline.comm.roster import Seat

Medium = Literal["unix", "tcp"]


@final
@dataclass(frozen=True, kw_only=True)
class Resumed:
    """The checkpoint that a run goes on from."""

    progress: int
    first: str
    """The worker whose state has what is the same in all."""
    is_same_group: bool = True
    """Whether its run had as many workers as this one, and it has states of all of them: one may
    have been lost before it."""
    time_s: float = 0.0
    """Where all training clocks go on from."""


@final
@dataclass(frozen=True, kw_only=True)
class Orders:
    """What all seats of a run are told alike."""

    entry: str
    """`module:function`; called with a `Berth` in each seat, returns its exit code."""
    run_key: str
    """Sixteen random bytes, in hex, that tell this run's messages from any other's."""
    password: str = field(repr=False)
    """What a seat shows to another where messages are not encrypted."""
    encrypts: bool
    """Whether messages are encrypted: then every seat has a pair of keys instead."""
    medium: Medium
    """What mailboxes are made of."""
    threads: int
    """How many threads each seat's arithmetic may use."""
    folder: str | None
    """The run's folder, for seats that see it."""
    latency_s: float = 0.0
    """For how long seats hold messages of other nodes, where the network cannot delay them."""
    spec: str | None = None
    """What is to be done, as the entry function reads it: a spec in TOML, or a word."""
    resumed: Resumed | None = None
    """What to go on from, unless the run begins anew."""
    detect_s: float = 5.0
    """After how many seconds of silence a seat is given up."""


@final
@dataclass(frozen=True, kw_only=True)
class Ticket:
    """One seat's own, and the orders of all."""

    orders: Orders
    seat: Seat
    incarnation: int = 0
    """How many times this seat was started before."""
    address: str = "127.0.0.1"
    """Where other nodes reach this one."""
    port: int = 0
    """At which port to listen there; 0: any that is free."""
    interface: str = "lo"
    """The network device that has the address."""
    label: str | None = None
    """What the user calls the node, where it is another machine than the driver's."""
