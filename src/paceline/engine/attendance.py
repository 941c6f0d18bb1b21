"""Who is here: which seats a run has, who has joined, and whose process has ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import final

from paceline.comm.line import Line
from paceline.comm.roster import Roster, Seat, Sitting
from paceline.comm.words import Failed, Fetch, Here, Joined, Lost, Members, Piece, Word
from paceline.engine.fingerprint import Sums, data_difference, difference
from paceline.engine.lines import Lines
from paceline.engine.oddities import Odd
from paceline.outcome.accounts import RowsHeld
from paceline.seats import Role, role_of


@final
class Attendance:
    """Owns the roster, and sends it when all seats of it are there, and whenever it changes then.

    A seat is *here* from its first word on, has *joined* when it waits for the start, and *stays*
    until its process has ended. One that the run goes on without is no longer on the roster; one
    that is started again is *coming*, and on the roster when it begins to train.
    """

    def __init__(self, seats: Sequence[Seat], lines: Lines) -> None:
        self._lines = lines
        self.roster = Roster.of(seats)
        self._staying = set(self.roster.by_name)
        self._given_up: set[str] = set()
        self._coming: dict[str, Sitting] = {}
        """Seats that were started while others train, and have not joined them yet."""
        self._incarnations = {each.name: 0 for each in seats}
        """The newest of each seat."""
        self._pids: dict[str, int] = {}
        self._states: dict[str, Sums] = {}
        self._rows: dict[str, RowsHeld] = {}

    def here(self, name: str, word: Here) -> None:
        """A seat has said where it is reached."""
        self._pids[name] = word.pid
        before = self._coming.get(name) or self.roster.by_name[name]
        sitting = dataclasses.replace(before, address=word.address, key=word.key)
        if name in self._coming:
            self._coming[name] = sitting
            self._lines.tell(name, Members(self._with(sitting)))
            return
        self.roster = self.roster.with_sitting(sitting)
        self._announce()

    def _with(self, coming: Sitting) -> Roster:
        """The roster as one that is not on it yet is told: it sees itself there."""
        return dataclasses.replace(self.roster.with_sitting(coming), epoch=self.roster.epoch)

    def _announce(self) -> None:
        if not self.roster.by_name.keys() <= self._pids.keys():
            return
        for name in self.roster.by_name:
            self._lines.tell(name, Members(self.roster))
        for name, sitting in self._coming.items():
            if name in self._pids:
                self._lines.tell(name, Members(self._with(sitting)))

    def check(self, name: str, word: Word) -> None:
        """Raise `Odd` unless a seat says that it is here, then that it has joined, once each."""
        is_here, has_joined = name in self._pids, name in self._states
        match word:
            case Failed() | Lost() | Piece() | Fetch():
                is_odd = False
            case Here():
                is_odd = is_here
            case Joined():
                is_odd = has_joined or not is_here
            case _:
                is_odd = not has_joined
        if is_odd:
            raise Odd.out_of_turn(type(word))

    def knows(self, name: str) -> bool:
        """Whether there is, or was, such a seat."""
        return name in self._incarnations

    def joined(self, name: str, state: Sums, rows: RowsHeld | None = None) -> None:
        """A seat waits for the start, from these values on, and with these rows."""
        self._states[name] = state
        if rows is not None:
            self._rows[name] = rows

    @property
    def have_all_joined(self) -> bool:
        return self.roster.by_name.keys() <= self._states.keys()

    @property
    def missing(self) -> set[str]:
        """Seats that have not joined yet."""
        return self.roster.by_name.keys() - self._states.keys()

    def odd_one(self) -> tuple[str, str] | None:
        """Name a seat that does not start from the values or the data of the others; say how."""
        return data_difference(self._rows) or difference(self._states)

    def left(self, name: str) -> None:
        """A seat's process has ended."""
        self._staying.discard(name)
        self._lines.hang_up(name)

    @property
    def staying(self) -> list[str]:
        """Seats whose process has not ended."""
        return sorted(self._staying)

    def give_up(self, name: str) -> None:
        """The run goes on without a seat."""
        self._given_up.add(name)
        self._lines.hang_up(name)
        self._staying.discard(name)
        if self._coming.pop(name, None) is None:
            self.roster = self.roster.without(name)
            self._announce()

    def is_given_up(self, name: str) -> bool:
        return name in self._given_up

    def is_coming(self, name: str) -> bool:
        """Whether a seat was started while others train, and has not joined them yet."""
        return name in self._coming

    def sitting(self, name: str) -> Sitting | None:
        """Who has a seat, or is about to take it."""
        return self._coming.get(name) or self.roster.by_name.get(name)

    def is_server(self, name: str) -> bool:
        """Whether a seat that is there, or coming, is a server's."""
        sitting = self.sitting(name)
        return sitting is not None and sitting.seat.role == "server"

    def is_away(self, name: str) -> bool:
        """Whether a seat is not there, nor about to be."""
        return name not in self.roster.by_name and name not in self._coming

    def next_incarnation(self, name: str) -> int:
        """How many times a seat was started, if it was not there at the start: one more."""
        return self._incarnations.get(name, 0) + 1

    def call_back(self, seat: Seat, line: Line) -> None:
        """A seat was started while others train: they hear of it when it has joined."""
        name = seat.name
        self._lines.replace(name, line)
        self._given_up.discard(name)
        self._staying.add(name)
        for known in (self._pids, self._states, self._rows):
            known.pop(name, None)
        self._incarnations[name] = self.next_incarnation(name)
        self._coming[name] = Sitting(seat=seat, incarnation=self._incarnations[name])

    def enroll(self, *names: str) -> None:
        """Seats that came later are some of the others from now on: all see them at once."""
        for name in names:
            self.roster = self.roster.with_sitting(self._coming.pop(name))
        if names:
            self._announce()

    def enroll_servers(self, name: str, *, together: bool) -> list[str]:
        """A server that came later has joined: enroll it, or all that were away when all have.

        Names those that are enrolled now.
        """
        ready = self._joined_servers() if together else [name]
        self.enroll(*ready)
        return ready

    def _joined_servers(self) -> list[str]:
        """Name all servers that are not on the roster; none before all of them have joined."""
        servers = [each for each in self._incarnations if role_of(each) == "server"]
        away = [each for each in servers if each not in self.roster.by_name]
        have_joined = all(each in self._coming and each in self._states for each in away)
        return away if have_joined else []

    @property
    def num_servers(self) -> int:
        """How many servers are on the roster."""
        return len(self.names("server"))

    def is_past(self, name: str, incarnation: int) -> bool:
        """Whether that incarnation of a seat has been replaced by another."""
        return incarnation < self._incarnations[name]

    def names(self, *roles: Role) -> list[str]:
        """Name the seats of these roles."""
        return [each.name for each in self.roster.sittings if each.seat.role in roles]

    def pids_on(self, node: str) -> dict[str, int]:
        """Give the processes of a node's workers and servers."""
        seats = (each.seat for each in self.roster.sittings)
        names = [each.name for each in seats if each.node == node and each.role != "monitor"]
        return {name: self._pids[name] for name in names}
