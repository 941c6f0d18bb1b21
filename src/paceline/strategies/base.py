"""The seam every strategy is written behind: seats, a member in each worker, perhaps servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

from paceline.description import Description
from paceline.errors import PeerLost, Problem
from paceline.finite import Refusals

if TYPE_CHECKING:
    from torch import Tensor, nn

    from paceline.comm.base import Channel
    from paceline.comm.shared import Host
    from paceline.optim import Optimizer
    from paceline.replica import Replica


@final
@dataclass(frozen=True, kw_only=True)
class Place:
    """What a strategy's process is told about itself and the others."""

    rank: int
    """Which worker this is, or which server, from 0 on."""
    num_workers: int
    num_servers: int
    replica: Replica
    """The model with its initial values, the same in every process."""
    optimizer: Optimizer
    most_steps: int | None
    """After how many global steps the run ends, where that is how its length was given."""
    host: Host | None
    """Memory and bells shared with the other seats, where all are on one host."""
    nodes: Sequence[str] = ()
    """The node of each worker, where there are several."""
    own_node: Host | None = None
    """Memory and bells shared with the seats of this one's node, where there are several."""
    open_channel: Callable[[], Channel]
    address: str = "127.0.0.1"
    """Where other nodes reach this one."""
    profiled: Callable[[Iterator[Any]], Iterator[Any]] = iter
    """Wraps what a server loops over, so that a few of its turns can be looked at closely."""
    learns: bool = True
    """Whether anything is learnt. The values of replayed compute are made up: nothing to check."""
    state_sums: Mapping[str, int] = field(default_factory=dict)
    """Checksums of the model's initial values, which must be the same in every process."""
    refusals: Refusals = field(default_factory=Refusals)
    """Where a worker notes each step that came to nothing because a gradient was not finite."""

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


class Flow(NamedTuple):
    """What goes from one seat to another in a step: a share of the bytes of all parameters."""

    sender: str
    receiver: str
    share: float
    worker: str
    """Whose steps count."""


class Member(ABC):
    """A worker's part in a strategy: takes its gradients, gives it new parameters.

    Made and used by one thread. After `exchange` returns, `replica.parameters` is what the next
    gradient is computed on, and `replica.gradients` may be overwritten.
    """

    overlaps: bool = False
    """Whether `ready` is to be called for each parameter as its gradient is finished."""

    global_steps: int | None = 0
    """Updates of the parameters so far, as this worker knows; None where nothing is shared."""

    fetches_ahead: bool = False
    """Whether `fetch_ahead` is to be called with the rows of the next batch."""

    starts: bool = True
    """Whether this worker makes a first step at all: there may be fewer steps than workers."""

    keeps_changes: ClassVar[bool] = True
    """Whether a change that the model makes to its own parameters, in place, stays. It is lost
    where the replica is a copy of what servers keep: that is then looked for, and an error."""

    limits_steps: ClassVar[bool] = False
    """Whether it ends the run after `place.most_steps` by itself; else the worker counts."""

    def begin(self, *, last: bool) -> None:
        """Wait for leave to start the next step, where a strategy holds workers back.

        `last` says that this worker wishes the step to be its last, as `exchange` is told again.
        """

    def ready(self, parameter: nn.Parameter) -> None:
        """Take note that one parameter's gradient is final, in back-propagation order."""

    def pull(self, rows: Tensor) -> None:
        """Bring the named rows of the model's table into its window, before the forward pass."""
        raise NotImplementedError(f"{type(self).__name__} does not keep a table of rows")

    def fetch_ahead(self, rows: Tensor) -> None:
        """Begin to bring the rows that the next `pull` will name, while this batch computes."""

    @abstractmethod
    def exchange(self, *, last: bool) -> bool:
        """Turn this worker's gradients into new parameters.

        `last` says that this worker wishes to stop after this step. Returns whether it must:
        workers that step together have to agree, or the others would wait for ever. A gradient
        that is not finite is not applied: the step is noted in `place.refusals`, and is no update.
        """

    def refresh(self) -> None:
        """Bring the replica to the newest parameters, before they are evaluated or saved."""

    def exchanged(self) -> Mapping[str, int]:
        """Give `sent_bytes` and `received_bytes`: values to and from other seats, where counted.

        It is asked for with every row of the records, so it may not take long.
        """
        return {}

    def counted(self) -> Mapping[str, Any]:
        """Give what this worker has counted, for its totals.

        Known are what `exchanged` gives, `staleness` (how many updates had which), `times_last`,
        `late_s` and `wait_s` (how it came to synchronous updates, and waited for others),
        `apply_s` (how long it applied updates itself), `hidden_s` (how long gradients travelled
        while it computed) and `buckets` (see `results.BucketTotals`).
        """
        return {}

    def take_waited_ns(self) -> int:
        """Give for how long computing only waited for an exchange, since this was last asked."""
        return 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """Give the module to call in the place of the model when gradients are computed."""
        return model

    def is_lost_peer(self, error: Exception) -> bool:
        """Whether an error only says that another seat is gone, which the driver can name."""
        del error
        return False

    def lost_peer(self) -> PeerLost | None:
        """Say which other seat is gone, where this member has noticed it by itself."""
        return None

    def table_values(self) -> Tensor | None:
        """Give the whole table of rows, for saving, where this worker has it."""
        return None

    def close(self) -> None:
        """Let go of whatever the member holds."""


class Strategy(Description, ABC):
    """How gradients meet parameters. `join` makes it live in a worker, `serve` in a server."""

    @property
    def equals_single(self) -> bool:
        """Whether N workers at batch B give what one worker gives at batch N times B."""
        return False

    @property
    def repeats(self) -> bool:
        """Whether two runs with one seed give the same parameters to the bit."""
        return False

    @property
    def counts_steps(self) -> bool:
        """Whether there are global steps: updates of parameters that all workers share."""
        return True

    @property
    def moves_rows(self) -> bool:
        """Whether a table's rows move one by one; else it is one more parameter, moved whole."""
        return False

    @property
    def needs_processes(self) -> bool:
        """Whether two of its workers cannot live in one process."""
        return False

    @property
    def connects_itself(self) -> bool:
        """Whether it has connections of its own beside the channel, which nobody encrypts."""
        return False

    @property
    def needs_autograd(self) -> bool:
        """Whether it sees gradients only inside of torch's own back-propagation."""
        return False

    @property
    def imports(self) -> tuple[str, ...]:
        """Modules that take long to import: a cluster that forks imports them once for all."""
        return ()

    @property
    def num_servers(self) -> int:
        """How many server seats it wants."""
        return 0

    @property
    def servers_apart(self) -> bool:
        """Whether servers want nodes of their own, where a cluster has several."""
        return False

    def meaning(self, num_workers: int) -> str:
        """Say in a few words what was computed; printed with every result."""
        counts = {"worker": num_workers, "server": self.num_servers}
        words = [f"{count} {role}{'s'[: count - 1]}" for role, count in counts.items() if count]
        return ", ".join(words)

    def flows(self, nodes: Sequence[str]) -> Sequence[Flow] | None:
        """Say what travels in a step, by theory; None where there is no closed form.

        `nodes` has the node of each worker.
        """
        del nodes
        return None

    def group_problems(self, num_workers: int) -> Iterator[Problem]:
        """Say what is wrong with running it with so many workers."""
        del num_workers
        yield from ()

    @abstractmethod
    def join(self, place: Place) -> Member:
        """Become a worker."""

    def serve(self, place: Place) -> Mapping[str, Any]:
        """Be a server until the channel says that the run is over; returns what it counted."""
        raise NotImplementedError(f"{self.name} has no servers")
