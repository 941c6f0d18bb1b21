"""Which all-reduce the workers of a roster have, and how one is formed again with others.

All members form with the same roster and the same epoch. Who still waits in an earlier formation is
told by `Regrouped`, and forms again. What had been reduced by then may have come to some members
only: whoever forms again decides from which values all go on, and says so by a broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, final

from paceline.comm.allreduce.base import AllReduce
from paceline.comm.allreduce.choosing import Algorithm, Choice, agreed, choose
from paceline.comm.allreduce.chosen import ChosenAllReduce
from paceline.comm.allreduce.halving import HalvingAllReduce
from paceline.comm.allreduce.hierarchical import HierarchicalAllReduce
from paceline.comm.allreduce.mail import Mail
from paceline.comm.allreduce.ring import RingAllReduce
from paceline.comm.allreduce.shared import SharedAllReduce
from paceline.comm.base import Channel, Regrouped
from paceline.comm.roster import Roster, by_node

if TYPE_CHECKING:
    from paceline.comm.host_memory import Host


@final
class Forming:
    """Makes a worker's end of the all-reduce of a roster, and again of each later one."""

    def __init__(
        self,
        name: str,
        *,
        open_channel: Callable[[], Channel],
        host: Host | None,
        algorithm: Algorithm = "ring",
        message_bytes: int = 0,
    ) -> None:
        """`host` is what the seats of this one's node share; either all workers have one or none.

        A seat that was started again cannot have one: it did not inherit the memory. `algorithm` is
        for what travels by messages; `auto` measures first, with tensors of `message_bytes`.
        """
        self.choice: Choice | None = None
        """What was chosen by measurement, on a seat that sends messages: once per run."""
        self._chosen: ChosenAllReduce | None = None
        self._algorithm: Algorithm = algorithm
        self._message_bytes = message_bytes
        self._name = name
        self._open_channel = open_channel
        self._host = host
        self._roster: Roster | None = None
        if host is not None:
            host.notice = self._notice

    @cached_property
    def _mail(self) -> Mail:
        channel = self._open_channel()
        channel.notice = self._notice
        return Mail(channel)

    def form(self, roster: Roster, epoch: int | None = None, *, room_bytes: int = 0) -> AllReduce:
        """Make the all-reduce of a roster's workers; what was formed before is not to be used.

        Through shared memory within a node, by messages between nodes. Where a seat
        was started again, all reduce by messages. The epoch is the roster's, unless one is given;
        it is larger than any before. `room_bytes` is how much `allocate` will be asked for.
        """
        self._roster = roster
        epoch = roster.epoch if epoch is None else epoch
        names, groups = roster.workers, by_node(roster.worker_nodes)
        if self._host is None or not roster.is_original or len(groups) == len(names) > 1:
            return self._by_messages(names, roster, epoch)
        mine = groups[roster.node_of(self._name)]
        within = SharedAllReduce(mine.index(self._name), mine, self._host, room_bytes, epoch)
        if len(groups) == 1:
            return within
        leaders = [group[0] for group in groups.values()]
        between = None
        if self._name in leaders:  # only the first worker of each node talks to other nodes
            between = self._by_messages(leaders, roster, epoch)
        return HierarchicalAllReduce(names.index(self._name), len(names), within, between)

    def _by_messages(self, names: Sequence[str], roster: Roster, epoch: int) -> AllReduce:
        mail, rank = self._mail_among(roster), names.index(self._name)
        if self._algorithm == "halving":
            return HalvingAllReduce(rank, names, mail, epoch)
        ring = RingAllReduce(rank, names, mail, epoch)
        if self._algorithm == "ring":
            return ring
        self._chosen = ChosenAllReduce(ring, HalvingAllReduce(rank, names, mail, epoch))
        self.take(agreed(ring, self.choice) or choose(ring, self._message_bytes))
        return self._chosen

    def take(self, choice: Choice) -> None:
        """Reduce from now on as was chosen, here or in the run that goes on; all ranks do so."""
        if self._chosen is not None:
            self.choice = choice
            self._chosen.use(choice.algorithm)

    def _mail_among(self, roster: Roster) -> Mail:
        """The mail, with everyone reached where the roster says."""
        self._mail.channel.follow(roster)
        return self._mail

    def _notice(self, roster: Roster) -> None:
        """End a wait for members that are no longer those of the formation."""
        if self.has_changed(roster):
            raise Regrouped(f"members changed: the roster is now that of epoch {roster.epoch}")

    def has_changed(self, roster: Roster) -> bool:
        """Whether members came or went after what was formed last.

        Also where they are the same again by now: some of them may have formed in between, and all
        form with one epoch.
        """
        return self._roster is not None and roster.workers_since > self._roster.epoch
