"""The seam every strategy is written behind: seats, a member in each worker, perhaps servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from paceline.arithmetic.exchange import ExchangePattern
from paceline.description import Description
from paceline.errors import PeerLost, Problem, StateError
from paceline.strategies.place import Place
from paceline.training.state import State, Stateful

if TYPE_CHECKING:
    from torch import Tensor, nn


__all__ = ["Flow", "Member", "Place", "Strategy"]


class Flow(NamedTuple):
    """What goes from one seat to another in a step: a share of the bytes of all parameters."""

    sender: str
    receiver: str
    share: float
    worker: str
    """Whose steps count."""


class Member(Stateful, ABC):
    """A worker's part in a strategy: takes its gradients, gives it new parameters.

    Made and used by one thread. After `exchange` returns, `replica.parameters` is what the next
    gradient is computed on, and `replica.gradients` may be overwritten.
    """

    overlaps: bool = False
    """Whether `ready` is to be called for each parameter as its gradient is finished."""

    can_await: bool = False
    """Whether `exchange` can return while parameters are still under way."""

    awaits: bool = False
    """Whether it does: set by who calls `await_parameters` before it uses any of them."""

    waited_ns: int = 0
    """For how long computing only waited for parameters, since `take_waited_ns` was asked."""

    meanwhile: Callable[[], None] | None = None
    """What `exchange` may call, on its own thread, while it waits for others: set by who drives it,
    where there is something worth doing. It returns soon, and may be called any number of times."""

    global_steps: int | None = 0
    """Updates of the parameters so far, as this worker knows; None where nothing is shared."""

    fetches_ahead: bool = False
    """Whether `fetch_ahead` is to be called with the rows of the next batch."""

    starts: bool = True
    """Whether this worker makes a first step at all: there may be fewer steps than workers."""

    is_looked_at: bool = False
    """Whether this worker's replica is the one that is evaluated or saved after `settle`, which is
    worker 0's for as long as it is there. Set before each call of it."""

    keeps_changes: ClassVar[bool] = True
    """Whether a change that the model makes to its own parameters, in place, stays. It is lost
    where the replica is a copy of what servers keep: that is then looked for, and an error."""

    alike: ClassVar[tuple[str, ...]] = ()
    """Parts of a worker's state that are the same in every worker, such as `replica/parameters`: a
    checkpoint has them of the first worker only."""

    pulled: ClassVar[tuple[str, ...]] = ()
    """Parts of it that servers have too: a checkpoint does not have them of any worker, and after
    it was loaded `refresh` is called."""

    limits_steps: ClassVar[bool] = False
    """Whether it ends the run after `place.most_steps` by itself; else the worker counts."""

    def begin(self, *, last: bool) -> None:
        """Wait for leave to start the next step, where a strategy holds workers back.

        `last` says that this worker wishes the step to be its last, as `exchange` is told again.
        """

    def ready(self, parameter: nn.Parameter) -> None:
        """Take note that one parameter's gradient is final, in back-propagation order."""

    def await_parameters(self, parameters: Collection[nn.Parameter] | None = None) -> int:
        """Wait until these, or all, are the newest; returns when the last came, where it is known.

        As nanoseconds of `perf_counter_ns`.
        """
        del parameters
        return 0

    def note_waited(self, waited_ns: int) -> None:
        """Computing waited so long for parameters."""
        self.waited_ns += waited_ns

    def pull(self, rows: Tensor) -> None:
        """Bring the named rows of the model's table into its window, before the forward pass."""
        raise NotImplementedError(f"{type(self).__name__} does not keep a table of rows")

    def fetch_ahead(self, rows: Tensor) -> None:
        """Begin to bring the rows that the next `pull` will name, while this batch computes."""

    def enter(self) -> bool:
        """Take part among workers that train already, before the first step; `place.is_late` then.

        Returns whether they have come to their end. `num_begun` then says how far they are.
        """
        return False

    @property
    def num_begun(self) -> int:
        """How many steps all workers have begun together, also those that came to nothing; 0 where
        they are not in step.
        """
        return 0

    @property
    def is_held(self) -> bool:
        """Whether `begin` has leave to wait for: parameters may change until it returns."""
        return False

    def regroup(self) -> None:
        """Meet the others again, as the newest roster has them; called while this worker rests."""

    @abstractmethod
    def exchange(self, *, last: bool) -> bool:
        """Turn this worker's gradients into new parameters.

        `last` says that this worker wishes to stop after this step. Returns whether it must:
        workers that step together have to agree, or the others would wait for ever. A gradient
        that is not finite is not applied: the step is noted in `place.refusals`, and is no update.
        """

    def settle(self) -> None:
        """Bring the replica to the parameters that are evaluated and saved, with all other workers.

        It is called in every worker: before each evaluation, and when all have ended, before the
        parameters are saved and before they are evaluated. What is looked at then is the replica of
        the worker that `is_looked_at`. The promise is that a collective here cannot wait for ever:

        - All workers rest when the first is called, and none goes on before all have returned.
        - Those that have ended before the others are called too, so that all are called equally
          often, in the same order, however many steps each has made.
        - That holds where a target ends the run early, and where the user stops it.
        - If a seat fails meanwhile, waits through channel or all-reduce end as in `exchange`.

        It is not called after a failure, nor where compute is replayed. What it takes is not on the
        training clock, and what it sends is not part of training's traffic. Evaluations should not
        change what is learnt: if values are put into the replica only to be looked at, bring back
        the worker's own in `begin`.
        """

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
        while it computed), `algorithm` and `round_trip_s` (what it chose by measurement) and
        `buckets` (see `outcome.buckets`): all of
        `outcome.accounts.WorkerAccount`, and of its types, or the run fails with the name of the
        one that is not. Any other name may have a number: the result has it in the worker's
        `other`.
        """
        return {}

    def take_waited_ns(self) -> int:
        """Give for how long computing only waited for an exchange, since this was last asked."""
        waited_ns, self.waited_ns = self.waited_ns, 0
        return waited_ns

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

    def state(self) -> State:
        """Give what the member has learnt and counted; the replica's values are not its own.

        Called while all workers rest. Servers may still be asked something: theirs is taken after.
        """
        raise StateError("member", type(self).__name__, "has no state(), so it cannot be saved")

    def load(self, state: State) -> None:
        del state
        raise StateError("member", type(self).__name__, "has no load(), so it cannot be restored")

    def adopt(self, state: State) -> None:
        """Take over what was learnt, and nothing else, from a member of a group of another size."""
        del state
        reason = "cannot be resumed with another number of workers"
        raise StateError("num_workers", type(self).__name__, reason)

    def refresh(self) -> None:
        """Take note that what is `pulled` has to be brought before the next step."""

    def close(self) -> None:
        """Let go of whatever the member holds."""


class Strategy(Description, ABC):
    """How gradients meet parameters. `join` makes it live in a worker, `serve` in a server."""

    @property
    def equals_single(self) -> bool:
        """Whether N workers at batch B give what one worker gives at batch N times B."""
        return False

    @property
    def in_step(self) -> bool:
        """Whether one global step is one step of every worker, so that all make equally many.

        False where a push of one worker is an update by itself, where an update may do without
        some workers, and where there are no global steps. What equals `single` is in step.
        """
        return self.equals_single

    @property
    def survives_workers(self) -> bool:
        """Whether the others can go on without a worker, and with one that comes later."""
        return False

    @property
    def takes_over_rows(self) -> bool:
        """Whether others can train on the rows of a worker that is gone: each steps by itself, and
        servers say how many of its pushes count (`Place.say_parted`).
        """
        return False

    @property
    def keeps_servers_away(self) -> str | None:
        """Say why a server that is lost cannot be started again; None where it can."""
        return f"{self.name} has no server that could come back"

    @property
    def servers_go_back_together(self) -> bool:
        """Whether all servers are started again with one that is, each from the same version."""
        return False

    @property
    def scripts_survive(self) -> bool:
        """Whether they can where the loops are a script's, which cannot be met again."""
        return False

    @property
    def keeps_one_optimizer(self) -> str | None:
        """Say why a script may have one optimizer only; None: any number of them."""
        return None

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
    def scripts(self) -> Literal["alone", "averaged", "served", "own"] | None:
        """What becomes of the gradients of a script's own loop, whose own optimizer steps.

        `alone`: nothing. `averaged`: `exchange` averages them, and `place.optimizer` does nothing.
        `served`: they are pushed, and servers apply them with `place.optimizer`. `own`: the
        script exchanges by itself, and is only watched. None: it cannot run scripts.
        """
        return None

    @property
    def imports(self) -> tuple[str, ...]:
        """Modules that take long to import: a cluster that forks imports them once for all."""
        return ()

    @property
    def num_servers(self) -> int:
        """How many server seats it wants."""
        return 0

    def for_workers(self, num_workers: int) -> Self:
        """Give the strategy that so many workers carry out: all that was left open is decided."""
        del num_workers
        return self

    @property
    def servers_apart(self) -> bool:
        """Whether servers want nodes of their own, where a cluster has several."""
        return False

    def meaning(self, num_workers: int) -> str:
        """Say in a few words what was computed; printed with every result."""
        counts = {"worker": num_workers, "server": self.num_servers}
        words = [f"{count} {role}{'s'[: count - 1]}" for role, count in counts.items() if count]
        return ", ".join(words)

    def flows(self, nodes: Mapping[str, str]) -> Sequence[Flow] | None:
        """Say what travels in a step, by theory; None where there is no closed form.

        `nodes` has the node of each worker, by the worker's name.
        """
        del nodes
        return None

    def pattern(self, num_workers: int) -> ExchangePattern | None:
        """Say how gradients are exchanged, as far as time is concerned: what a plan is made of.

        None where that is not known: then it cannot be planned.
        """
        del num_workers
        return None

    def group_problems(self, num_workers: int) -> Iterator[Problem]:
        """Say what is wrong with running it with so many workers."""
        del num_workers
        yield from ()

    @abstractmethod
    def join(self, place: Place) -> Member:
        """Become a worker."""

    def serve(self, place: Place) -> Mapping[str, Any]:
        """Be a server until the channel says that the run is over; returns what it counted.

        Known are the fields of `outcome.accounts.ServerAccount`; other names are as of `counted`
        of a member. A server that gives no `updates` is not part of the result.
        """
        raise NotImplementedError(f"{self.name} has no servers")
