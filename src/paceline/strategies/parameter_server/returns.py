"""Servers that are lost while a worker needs them, and come back."""

from __future__ import annotations

from typing import final

from paceline.comm.roster import Roster
from paceline.errors import PeerLost
from paceline.strategies.place import Place


class Returned(Exception):
    """Raised where a worker waits or sends, when a server was started again."""


@final
class Returns:
    """Which servers were started again and do not know yet how far this worker is.

    While a server is away its worker waits. The driver ends that: it has the server started again,
    or ends the run if that takes too long.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        known = place.roster.by_name
        self._known = {name: known[name].incarnation for name in place.roster.servers}
        self._reported: set[str] = set()
        self.are_possible = place.servers_return
        self.back: list[str] = []

    def notice(self, roster: Roster) -> None:
        """Hear of a roster; raises `Returned` where it has a server that was started again."""
        has_news = False
        for name in roster.servers:
            incarnation = roster.by_name[name].incarnation
            if incarnation > self._known.get(name, 0):
                self._known[name] = incarnation
                self._reported.discard(name)
                has_news = True
                if name not in self.back:
                    self.back.append(name)
        if has_news:
            raise Returned

    def bear(self, lost: PeerLost) -> None:
        """Go on waiting for a seat that cannot be reached, if it comes back; else raise that."""
        if not self.are_possible or lost.seat not in self._known:
            raise lost
        roster = self._place.newest_roster()
        is_unknown_to_driver = roster is None or lost.seat in roster.by_name
        if is_unknown_to_driver and lost.seat not in self._reported:
            self._reported.add(lost.seat)
            self._place.say_lost(lost)
