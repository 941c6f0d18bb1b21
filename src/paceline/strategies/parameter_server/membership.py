"""Workers that come and go while a server serves, as the driver's roster has them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import final

from paceline.comm.roster import Roster
from paceline.errors import PeerLost
from paceline.strategies.parameter_server.application import Application
from paceline.strategies.parameter_server.link import ServerLink
from paceline.strategies.place import Place


@final
class Membership:
    """Tells a server's application who has come and who is gone, between two arrivals."""

    def __init__(self, place: Place, application: Application, link: ServerLink) -> None:
        self._place = place
        self._link = link
        self._application = application
        self._names = place.worker_names
        self.incarnations = _incarnations(place.roster)
        """Of the workers there are."""
        self._roster = place.roster
        self._newest: Roster | None = None
        self._reported: set[tuple[str, int]] = set()
        self.is_busy = False
        """Whether an arrival is being taken: what has changed meanwhile waits until it is."""
        self.changed: Callable[[Collection[int]], None] = lambda _: None
        """Hears which workers there are, whenever that has changed."""

    def follow(self, roster: Roster) -> None:
        """Hear of a roster, perhaps in the middle of an arrival."""
        self._newest = roster
        if not self.is_busy:
            self.settle()

    def settle(self) -> None:
        """Let go who is gone, and take in who has come."""
        roster = self._newest
        if roster is None or roster.epoch <= self._roster.epoch:
            return
        before, now = self.incarnations, _incarnations(roster)
        self.incarnations = now
        self._roster = roster
        for worker, incarnation in before.items():
            if now.get(worker) != incarnation:
                self._part_from(worker, incarnation)
                self._link.forget(worker)
        for worker, incarnation in now.items():
            if before.get(worker) != incarnation:
                self._application.join(worker)
        # Who came anew does not greet: it has seen nothing of the server that was here before.
        self.changed([each for each in now if before.get(each) == now[each]])

    def _part_from(self, worker: int, incarnation: int) -> None:
        """Let go a worker that is gone; who takes over its rows has to know how far it was."""
        num_pushes = self._application.num_pushes(worker)
        self._application.leave(worker)
        if num_pushes is not None:
            self._place.say_parted(self._names[worker], incarnation, num_pushes)

    def includes(self, worker: int) -> bool:
        """Whether what has just arrived is of a member; of one that has just come it waits."""
        if self._place.host is not None:
            return worker in self.incarnations
        # A message may overtake the driver's word that its sender was started, or started again.
        name = self._names[worker]
        incarnation = self._place.channel.incarnation_of(name)
        while not self._roster.has_heard_of(name, incarnation):
            roster = self._place.next_roster(self._roster.epoch, None)
            self._place.channel.follow(roster)
            self.follow(roster)
        return self.incarnations.get(worker) == incarnation

    def report(self, lost: PeerLost) -> None:
        """Say once that a worker cannot be reached; the driver decides what that means."""
        if (lost.seat, self._roster.epoch) not in self._reported:
            self._reported.add((lost.seat, self._roster.epoch))
            self._place.say_lost(lost)


def _incarnations(roster: Roster) -> dict[int, int]:
    sittings = (roster.by_name[name] for name in roster.workers)
    return {each.seat.index: each.incarnation for each in sittings}
