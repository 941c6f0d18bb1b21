"""The seam between the parameter server's rules and how bytes travel.

A worker pushes its whole gradient and gets parameters back, chunk by chunk; a server sees each
chunk arrive and answers it. Two implementations: memory shared on one host, and messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from paceline.strategies.parameter_server.cuts import Chunk


# What goes along with a push, or with its reply: bits of a number. Plain numbers, not an IntFlag:
# they are looked at several times a push, and an IntFlag costs a microsecond each time.
LAST: Final = 1
"""Push: the worker wishes to stop after this step. Reply: it must."""
REFUSED: Final = 2
"""Push: the gradient is not finite and is left out. Reply: so was the update that it was for."""
PULL: Final = 4
"""Push: no gradient, only the newest parameters are wanted."""
WAIT: Final = 8
"""Reply: the worker may not start its next step before it is released."""
RELEASE: Final = 16
"""Reply that was not asked for: a worker that had to wait may go on."""
ROWS: Final = 32
"""Push: rows of the table, or their gradients. Alone: their values are wanted."""
LEAVE: Final = 128
"""Push, along with `PULL`: the worker makes no more steps."""


class Arrival(NamedTuple):
    """A chunk of a worker's push."""

    worker: int
    chunk: Chunk
    flags: int
    version: int
    """The version of the parameters that the gradient was computed on."""
    gradient: Tensor
    """May be used until the chunk is answered, and overwritten."""
    sent_ns: int = 0
    """When the worker pushed, on the host's monotonic clock; 0 where it is not known."""
    rows: Tensor | None = None
    """With the last chunk: the rows of the server's part of the table that the push touches, or,
    where the flags are `ROWS`, whose values are wanted."""
    row_gradients: Tensor | None = None


class Touched(NamedTuple):
    """The rows of the table that a batch touched, in ascending order, and their gradients."""

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


class WorkerLink(ABC):
    """A worker's end. Used by one thread."""

    sent_bytes: int = 0
    """Bytes of values, as if each travelled, also where memory is shared."""
    received_bytes: int = 0

    @abstractmethod
    def exchange(self, flags: int, touched: Touched | None = None) -> Answer:
        """Push the replica's gradients, and bring what comes back into its parameters."""

    @abstractmethod
    def pull_rows(self, rows: Tensor) -> Tensor:
        """Fetch rows of the table, named in ascending order and each once."""

    def fetch_ahead(self, rows: Tensor) -> None:
        """Ask for rows that the next `pull_rows` will name, where asking takes time."""

    @abstractmethod
    def await_release(self) -> Answer:
        """After a reply that said to wait: wait for the word, and for newer parameters."""


class ServerLink(ABC):
    """A server's end. Used by one thread."""

    busy_ns: int = 0
    """For how long it has not waited for anybody, in all."""
    changes: memoryview[int] | list[int]
    """For each chunk a number to be raised before its parameters are changed, and after: odd while
    they change. Whoever reads them meanwhile can so tell that it must read again."""

    @abstractmethod
    def place_parameters(self, initial: Tensor) -> Tensor:
        """Lay the server's part of the parameters where it is to be kept."""

    @abstractmethod
    def arrivals(self) -> Iterator[Arrival]:
        """Yield chunks as they arrive. Raises `Finished` when the run is over."""

    @abstractmethod
    def answer(
        self, worker: int, chunk: Chunk, parameters: Tensor, version: int, flags: int
    ) -> None:
        """Let a worker have a chunk's parameters; they may change as soon as this returns."""

    @abstractmethod
    def make_table(self, num_rows: int, width: int, dtype: torch.dtype) -> Tensor:
        """Make this server's part of the table, all zero, where workers can get at it."""

    @abstractmethod
    def answer_rows(self, worker: int, values: Tensor, version: int) -> None:
        """Send a worker the values of the rows it asked for, as they are in that version."""
