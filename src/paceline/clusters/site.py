"""The seam behind which nodes are made that are not this machine itself."""

from __future__ import annotations

import importlib
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

from paceline.comm.keeper_words import Built
from paceline.comm.meter import Meter


@final
@dataclass(frozen=True)
class Surroundings:
    """What a seat finds on its node."""

    address: str = "127.0.0.1"
    """Where other nodes reach this one."""
    interface: str = "lo"
    """The network device that has the address."""
    meter: Meter | None = None
    """What the node's link has carried, where that can be told."""


def reached_at(address: str) -> Surroundings:
    """Make those of a real machine that others reach at one of its addresses."""
    import psutil

    by_interface = psutil.net_if_addrs()
    for interface, addresses in by_interface.items():
        if any(each.address.partition("%")[0] == address for each in addresses):
            return Surroundings(address, interface)
    raise OSError(f"no interface of this machine has the address {address}")


def at_interface(name: str, like: str) -> Surroundings:
    """Make those of a real machine that others reach through the interface of this name.

    Of its addresses it is one of the same family as `like`, if there is one, and routed.
    """
    import psutil

    by_interface = psutil.net_if_addrs()
    families = (socket.AF_INET, socket.AF_INET6)
    found = [
        each.address
        for each in by_interface.get(name, [])
        if each.family in families and not each.address.startswith("fe80:")
    ]
    if not found:
        choices = ", ".join(by_interface)
        raise OSError(f"cluster.interface = {name!r}: none here has an address ({choices})")
    return Surroundings(min(found, key=lambda each: (":" in each) != (":" in like)), name)


class Site(ABC):
    """The nodes of one run. Made and built by the keeper; forked seats enter."""

    @abstractmethod
    def __init__(self, plan: dict[str, Any]) -> None:
        """Gain the rights it takes, and make what must outlive the nodes."""

    @abstractmethod
    def build(self) -> Built:
        """Make the nodes; returns what to tell the driver. May take minutes."""

    @abstractmethod
    def enter(self, node: str) -> Surroundings:
        """Be in a node from now on; called in a seat's process."""

    @abstractmethod
    def cut(self, node: str, *, is_down: bool) -> None:
        """Take a node's link down, or bring it up again."""

    @abstractmethod
    def remove(self) -> None:
        """Remove what does not vanish with the processes that hold it."""


def site_of(path: str, plan: dict[str, Any]) -> Site:
    """Make the site that `module:class` names."""
    module, _, name = path.partition(":")
    made: Site = getattr(importlib.import_module(module), name)(plan)
    return made
