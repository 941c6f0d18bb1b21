"""What a strategy's process is told about itself and the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

from paceline.errors import Aborted, PeerLost
from paceline.seats import server_names, worker_names
from paceline.training.finite import Refusals

if TYPE_CHECKING:
    from paceline.comm.base import Channel
    from paceline.comm.host_memory import Host
    from paceline.comm.roster import Roster
    from paceline.training.optim import Optimizer
    from paceline.training.replica import Replica
    from paceline.training.state import State, Stateful


def _say_nothing(lost: PeerLost) -> None:
    """Where no driver listens."""
    del lost


def _keep_nothing(server: Stateful) -> None:
    """Where there are no checkpoints."""
    del server


def _keep_no_snapshot(state: State) -> bool:
    """Where no server comes back."""
    del state
    return False


def _say_not(version: int, lost: int) -> None:
    """Where no driver listens."""
    del version, lost


def _part_silently(worker: str, incarnation: int, num_pushes: int) -> None:
    """Where no driver listens."""
    del worker, incarnation, num_pushes


def _no_newer_roster() -> None:
    """Where nobody comes or goes."""


def _no_other_roster(epoch: int, lost: PeerLost | None) -> Roster:
    """Where nobody comes or goes."""
    raise lost or Aborted(f"there is no roster after epoch {epoch}")


@final
@dataclass(frozen=True, kw_only=True)
class Place:
    """What a strategy's process is told about itself and the others.

    A `Berth` is what a cluster leaves to any seat, monitors too. A place is made of it once there
    is a model, and adds what only strategies ask for. Who the others are it asks the roster.
    """

    name: str
    """Of its seat: `worker0`, `server1`."""
    roster: Roster
    """All seats, as they were when this one joined."""
    replica: Replica
    """The model with its initial values, the same in every process."""
    optimizer: Optimizer
    most_steps: int | None
    """After how many global steps the run ends, where that is how its length was given."""
    own_node: Host | None = None
    """Memory and bells shared with the other seats of this one's node, where they are."""
    open_channel: Callable[[], Channel]
    address: str = "127.0.0.1"
    """Where other nodes reach this one."""
    profiled: Callable[[Iterator[Any]], Iterator[Any]] = iter
    """Wraps what a server loops over, so that a few of its turns can be looked at closely."""
    opened: Callable[[Stateful], None] = _keep_nothing
    """To be called by a server with what has its state, before it serves: it then goes on from the
    state that it had in a checkpoint, and its state is kept with the next ones."""
    learns: bool = True
    """Whether anything is learnt. The values of replayed compute are made up: nothing to check."""
    state_sums: Mapping[str, int] = field(default_factory=dict)
    """Checksums of the model's initial values, which must be the same in every process."""
    is_late: bool = False
    """Whether the others train already: then there is nothing to meet them for before `enter`."""
    survives: bool = False
    """Whether the run goes on when a worker is lost, where the strategy can."""
    may_start_again: bool = False
    """Whether a seat may be started while others train: it inherits no memory of theirs."""
    servers_return: bool = False
    """Whether a server that is lost is started again, from the last snapshot it kept."""
    all_servers: int = 0
    """How many servers there are when all are there; 0: as many as there are now."""
    keep_snapshot: Callable[[State], bool] = _keep_no_snapshot
    """Copies a server's state and has it written; returns whether the one before is written."""
    say_restored: Callable[[int, int], None] = _say_not
    """Tells the driver that all have found a server that was started again: to which version it
    went back, and how many updates were lost."""
    say_parted: Callable[[str, int, int], None] = _part_silently
    """Tells the driver of a worker that is gone: its name, its incarnation, and how many of its
    pushes count."""
    most_workers: int = 0
    """How many workers there may ever be at once; 0: no more than there are."""
    newest_roster: Callable[[], Roster | None] = _no_newer_roster
    """Gives the newest roster that was heard, if any was; does not wait."""
    next_roster: Callable[[int, PeerLost | None], Roster] = _no_other_roster
    """Waits for a roster of a later epoch, and tells the driver first which seat was lost, if one
    was. Raises that, or `Aborted`, if none comes."""
    say_lost: Callable[[PeerLost], None] = _say_nothing
    """Tells the driver which seat cannot be reached; does not wait."""
    refusals: Refusals = field(default_factory=Refusals)
    """Where a worker notes each step that came to nothing because a gradient was not finite."""

    @property
    def rank(self) -> int:
        """Which worker this is, or which server, from 0 on."""
        return self.roster.by_name[self.name].seat.index

    @property
    def num_workers(self) -> int:
        """How many workers there are now."""
        return self.roster.num_workers

    @property
    def num_servers(self) -> int:
        """How many servers there are, one that is away for the moment included."""
        return max(self.all_servers, self.roster.num_servers)

    @property
    def server_names(self) -> list[str]:
        """The name of each, by its number."""
        return server_names(self.num_servers)

    @property
    def worker_names(self) -> dict[int, str]:
        """The name of each worker, by its number; of those that may come, too."""
        if self.may_start_again:
            return dict(enumerate(worker_names(max(self.most_workers, self.num_workers))))
        return dict(zip(self.roster.worker_numbers, self.roster.workers, strict=True))

    @property
    def host(self) -> Host | None:
        """Memory and bells shared with all other seats, where they are on one host."""
        everyone_shares = len(self.roster.nodes) == 1 and self.roster.is_original
        everyone_shares &= not self.may_start_again
        return self.own_node if everyone_shares else None

    @cached_property
    def channel(self) -> Channel:
        """Messages to and from the other seats, by name: `worker0`, `server0`."""
        return self.open_channel()

    def start_counting(self) -> None:
        """Count from here on what goes to whom: training begins."""
        if "channel" in self.__dict__:
            self.channel.sent_to.clear()

    def counted(self) -> Mapping[str, Any]:
        """Give what the channel has counted, if anybody opened it."""
        if "channel" not in self.__dict__:
            return {}
        channel = self.channel
        return {
            "dropped_frames": channel.dropped,
            "rejected_peers": channel.rejected,
            "sent_to": dict(channel.sent_to),
        }

    def close(self) -> None:
        """Close the channel, if anybody opened it."""
        if "channel" in self.__dict__:
            self.channel.close()
