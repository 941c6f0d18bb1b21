"""Which seats a run has now: where they are, how they are reached, how often they were started.

The driver owns the roster and sends it to every seat. Whoever needs the names of the workers, or
their number, asks it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

from paceline.seats import Role, seat_name


@final
@dataclass(frozen=True)
class Seat:
    """A role on a node."""

    role: Role
    index: int
    node: str

    @property
    def name(self) -> str:
        return seat_name(self.role, self.index)


def by_node(nodes: Mapping[str, str]) -> dict[str, list[str]]:
    """Name the seats of each node, given the node of each seat."""
    groups: dict[str, list[str]] = {}
    for name, node in nodes.items():
        groups.setdefault(node, []).append(name)
    return groups


@final
@dataclass(frozen=True, kw_only=True)
class Sitting:
    """A seat that is taken: by which incarnation of it, and where messages reach that one."""

    seat: Seat
    incarnation: int = 0
    """How many times the seat was started before; nothing of an earlier one is applied."""
    address: str | None = None
    """Of its mailbox; None where it has none."""
    key: str | None = None
    """The public half of its pair, in Z85, where messages are encrypted."""

    @property
    def name(self) -> str:
        return self.seat.name


@final
@dataclass(frozen=True)
class Roster:
    """The seats of a run at one moment, in the order of their ranks."""

    sittings: tuple[Sitting, ...]
    epoch: int = 0
    """Grows with every change."""
    workers_since: int = 0
    """The epoch from which on there are these workers. One may have come and gone just before: to
    compare names does not tell."""
    gone: dict[str, int] = dataclasses.field(default_factory=dict, hash=False)
    """Of each seat that was given up, and is not taken anew, its last incarnation."""

    @staticmethod
    def of(seats: Iterable[Seat]) -> Roster:
        """The roster of seats that were just started, nobody's address known."""
        return Roster(tuple(Sitting(seat=each) for each in seats))

    @cached_property
    def by_name(self) -> dict[str, Sitting]:
        return {each.name: each for each in self.sittings}

    @cached_property
    def workers(self) -> Sequence[str]:
        """Their names, by rank."""
        return self.names("worker")

    @cached_property
    def servers(self) -> Sequence[str]:
        return self.names("server")

    @property
    def num_workers(self) -> int:
        return len(self.workers)

    @property
    def num_servers(self) -> int:
        return len(self.servers)

    def names(self, role: Role) -> Sequence[str]:
        """Name the seats of a role, by rank."""
        return tuple(each.name for each in self._in_order() if each.seat.role == role)

    def node_of(self, name: str) -> str:
        return self.by_name[name].seat.node

    @property
    def worker_numbers(self) -> Sequence[int]:
        """The number of each worker: `worker3` keeps 3, whoever else comes and goes."""
        return tuple(self.by_name[each].seat.index for each in self.workers)

    @property
    def worker_nodes(self) -> dict[str, str]:
        """The node of each worker, by its name, in the order of ranks."""
        return {each: self.node_of(each) for each in self.workers}

    @property
    def is_original(self) -> bool:
        """Whether no seat was started again: only the first to sit inherit a node's memory."""
        return not any(each.incarnation for each in self.sittings)

    def neighbours(self, node: str) -> Sequence[str]:
        """Name all seats of a node."""
        return tuple(each.name for each in self.sittings if each.seat.node == node)

    @property
    def nodes(self) -> Sequence[str]:
        """All nodes that somebody sits on."""
        return tuple(dict.fromkeys(each.seat.node for each in self.sittings))

    @property
    def addresses(self) -> dict[str, str]:
        """Where each seat that has a mailbox is reached."""
        return {each.name: each.address for each in self.sittings if each.address is not None}

    @property
    def keys(self) -> dict[str, str]:
        """The public key of each seat that has one."""
        return {each.name: each.key for each in self.sittings if each.key is not None}

    def with_sitting(self, new: Sitting) -> Roster:
        """The roster once a seat is taken anew, or said where it is reached."""
        others = [each for each in self.sittings if each.name != new.name]
        gone = {name: last for name, last in self.gone.items() if name != new.name}
        return self._followed_by((*others, new), gone)

    def without(self, name: str) -> Roster:
        """The roster once a seat is given up."""
        left = {each.name: each.incarnation for each in self.sittings if each.name == name}
        others = [each for each in self.sittings if each.name != name]
        return self._followed_by(others, {**self.gone, **left})

    def has_heard_of(self, name: str, incarnation: int) -> bool:
        """Whether that incarnation of a seat is on this roster, or was on one before it."""
        sitting = self.by_name.get(name)
        newest = self.gone.get(name, -1) if sitting is None else sitting.incarnation
        return incarnation <= newest

    def _followed_by(self, sittings: Iterable[Sitting], gone: dict[str, int]) -> Roster:
        made = Roster(tuple(sittings), self.epoch + 1, self.workers_since, gone)
        since = self.workers_since if made._incarnations == self._incarnations else made.epoch
        return dataclasses.replace(made, sittings=tuple(made._in_order()), workers_since=since)

    @property
    def _incarnations(self) -> dict[str, int]:
        return {name: self.by_name[name].incarnation for name in self.workers}

    def _in_order(self) -> list[Sitting]:
        roles = ("worker", "server", "monitor")
        return sorted(
            self.sittings, key=lambda each: (roles.index(each.seat.role), each.seat.index)
        )
