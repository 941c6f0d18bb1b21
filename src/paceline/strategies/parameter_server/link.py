"""The seam between the parameter server's rules and how bytes travel.

A push is the chunks of a gradient, in any order, and one *word*: that all of it is finite, or that
it is refused. The word comes with a chunk or alone, before, between or after the chunks. A reply
is the parameters chunk by chunk, and one *decision*, with an answer or alone. Two implementations:
memory shared on one host, and messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from paceline.training.state import State, Stateful, StateReader, attributes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from paceline.strategies.parameter_server.cuts import Chunk


# What goes along with a push, or with its reply: bits of a number. Plain numbers, not an IntFlag:
# they are looked at several times a push, and an IntFlag costs a microsecond each time.
LAST: Final = 1
"""Push: the worker wishes to stop after this step. Reply: it must."""
REFUSED: Final = 2
"""Push: the gradient, or this chunk of it, is not finite and is left out. Reply: so was the update
that it was for."""
PULL: Final = 4
"""Push: no gradient, only the newest parameters are wanted."""
WAIT: Final = 8
"""Reply: the worker may not start its next step before it is released."""
RELEASE: Final = 16
"""Reply that was not asked for: a worker that had to wait may go on."""
ROWS: Final = 32
"""Push: rows of the table, or their gradients. Alone: their values are wanted."""
STAND: Final = PULL | REFUSED
"""Push: no parameters are wanted either, only whether the worker has to wait."""
KEPT: Final = 4
"""Reply to that: whatever comes along, the worker keeps the parameters that it has."""
LEAVE: Final = 128
"""Push, along with `PULL`: the worker makes no more steps."""
WORD: Final = 256
"""Push: the worker's word is in; with `REFUSED`, nothing of the push may be applied."""
DECIDED: Final = 256
"""Reply: version and flags are those of the whole push."""
BARE: Final = 512
"""Push: no values come along."""
GREETING: Final = 16
"""Push: the server was started again, and is to know how far this worker is; see `Greeting`."""
VOID: Final = 512
"""Reply, along with `DECIDED`: no more parameters will come; the worker has the right ones."""


class Arrival(NamedTuple):
    """A chunk of a worker's push, or its word, or both."""

    worker: int
    chunk: Chunk
    flags: int
    version: int
    """The version of the parameters that the gradient was computed on."""
    gradient: Tensor
    """May be used until the push is answered, and overwritten."""
    sent_ns: int = 0
    """When the worker pushed, on the host's monotonic clock; 0 where it is not known."""
    rows: Tensor | None = None
    """With the word: the rows of the server's part of the table that the push touches, or, where
    the flags are `ROWS`, whose values are wanted."""
    row_gradients: Tensor | None = None
    push: int = 0
    """Which push of the worker it belongs to: a number unlike that of the one before."""


class Greeting(NamedTuple):
    """What a worker that was there before tells a server that was started again."""

    worker: int
    push: int
    """The number of its newest push, as pushes carry it."""
    num_decided: int
    """Of how many pushes it knows what became of them."""
    is_pending: bool
    """Whether it sends one more, of which it does not know."""
    waits: bool = False
    """Whether it may not start its next step before it is released."""
    leaves: bool = False
    """Whether it makes no more steps."""


def greeting_of(arrival: Arrival) -> Greeting:
    """Read a greeting, whose values came as rows do."""
    assert arrival.rows is not None
    num_decided, is_pending = (int(each) for each in arrival.rows)
    return Greeting(
        arrival.worker,
        arrival.push,
        num_decided,
        is_pending=bool(is_pending),
        waits=bool(arrival.flags & WAIT),
        leaves=bool(arrival.flags & LEAVE),
    )


class Touched(NamedTuple):
    """The rows of the table that a batch touched, in the order of `pull_rows`, their gradients."""

    rows: Tensor
    gradients: Tensor


class Answer(NamedTuple):
    """What all servers together said to a push."""

    version: int
    """Of the first server."""
    flags: int
    staleness: int
    """Updates that others made between this worker's last answer and its push: the most that
    any server saw."""


class WorkerLink(Stateful, ABC):
    """A worker's end. Used by one thread."""

    sent_bytes: int = 0
    """Bytes of values, as if each travelled, also where memory is shared."""
    received_bytes: int = 0
    is_behind: bool = False
    """Whether a server was started again since parameters last came."""
    leaves: bool = False
    """Whether the worker makes no more steps."""
    wants_ascending: bool = True
    """Whether rows of a table must be named in ascending order."""
    meanwhile: Callable[[], None] | None = None
    """What may be called between a push and its answer."""

    @abstractmethod
    def exchange(
        self, flags: int, touched: Touched | None = None, left_out: Collection[Chunk] = ()
    ) -> Answer:
        """Push what of the gradients was not sent early, and the word; wait for the decision.

        `left_out` are chunks that are refused one by one. The new parameters are in the replica, or
        `await_chunks` waits for them.
        """

    @abstractmethod
    def send_early(self, chunk: Chunk, flags: int = 0) -> None:
        """Send a chunk that is finished, while later ones are computed."""

    def await_chunks(self, chunks: Collection[Chunk]) -> int:
        """Wait until the newest parameters of these are here; returns when the last one came.

        Nanoseconds of `perf_counter_ns`; 0 where there was nothing to wait for.
        """
        del chunks
        return 0

    def drain(self) -> None:
        """Wait until nothing is under way."""

    @abstractmethod
    def pull_rows(self, rows: Tensor) -> Tensor:
        """Fetch rows of the table, each named once; where it says so, in ascending order."""

    def fetch_ahead(self, rows: Tensor) -> None:
        """Ask for rows that the next `pull_rows` will name, where asking takes time."""

    @abstractmethod
    def catch_up(self) -> None:
        """Wait for all that servers have said so far: a release may be under way.

        Newer parameters than those of a release do not come with it.
        """

    def look_around(self) -> None:
        """Greet servers that were started again while this worker rests; does not wait."""

    @abstractmethod
    def await_release(self) -> Answer:
        """After a reply that said to wait: wait for the word, and for newer parameters."""

    def close(self) -> None:
        """Let go of what is held."""


class ServerLink(Stateful, ABC):
    """A server's end. Used by one thread."""

    busy_ns: int = 0
    """For how long it has not waited for anybody, in all."""
    decides_first: ClassVar[bool] = False
    """Whether a worker may be told what was decided before all chunks are answered."""
    changes: memoryview[int] | list[int]
    """For each chunk a number to be raised before its parameters are changed, and after: odd while
    they change. Whoever reads them meanwhile can so tell that it must read again."""

    @abstractmethod
    def place_parameters(self, initial: Tensor) -> Tensor:
        """Lay the server's part of the parameters where it is to be kept."""

    @abstractmethod
    def arrivals(self) -> Iterator[Arrival]:
        """Yield chunks and words as they arrive. Raises `Finished` when the run is over."""

    @abstractmethod
    def answer(
        self, worker: int, chunk: Chunk, parameters: Tensor, version: int, flags: int
    ) -> None:
        """Let a worker have a chunk's parameters; they may change as soon as this returns."""

    @abstractmethod
    def decide(self, worker: int, version: int, flags: int) -> None:
        """Tell a worker what was decided, where no answer is left that could say so."""

    @abstractmethod
    def make_table(self, num_rows: int, num_values: int, dtype: torch.dtype) -> Tensor:
        """Make this server's part of the table, all zero, where workers can get at it."""

    @abstractmethod
    def answer_rows(self, worker: int, values: Tensor, version: int) -> None:
        """Send a worker the values of the rows it asked for, as they are in that version."""

    def forget(self, worker: int) -> None:
        """A worker is gone: what it began to say is not continued by whoever comes in its place."""
        del worker

    def restart(self, version: int) -> None:
        """Go on from parameters that were loaded, and are of this version."""

    def state(self) -> State:
        """Give what was counted; at rest no push is under way."""
        return attributes(self, "busy_ns")

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "busy_ns")
