"""How gradients become updates: each on arrival (`each.py`), or averaged (`average.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from paceline.errors import StateError
from paceline.training.state import Adopting, State

if TYPE_CHECKING:
    from collections.abc import Collection

    from paceline.strategies.parameter_server.link import Arrival, Greeting
    from paceline.strategies.parameter_server.server_parameters import ServerParameters


class Application(Adopting, ABC):
    """Takes pushes, chunk by chunk and in any order, and sees to it that each is answered.

    A push is under way from the first that comes of it until its word and all of its chunks are
    in, or until it is decided that nothing of it is wanted any more.

    Its state is everything that a server has: while a push is under way there is none.
    """

    keep: ServerParameters

    @abstractmethod
    def take(self, arrival: Arrival) -> None:
        """Take a chunk of a push, or its word, or both."""

    @abstractmethod
    def pull(self, arrival: Arrival) -> None:
        """Answer a worker that only wants the newest parameters, or to know how it stands."""

    @abstractmethod
    def join(self, worker: int) -> bool:
        """A worker has come, with the newest parameters; returns whether there is a step for it."""

    def num_pushes(self, worker: int) -> int | None:
        """How many pushes of a worker count, one included of which a part was applied.

        None where that is not kept: workers that step together are as far as the updates.
        """
        del worker
        return None

    @abstractmethod
    def leave(self, worker: int) -> None:
        """A worker is gone: nobody waits for it, and what it has not brought whole is dropped.

        Chunks of its last push that were applied already stay applied, if its word was in.
        """

    @abstractmethod
    def snapshot(self) -> State:
        """Give all that a server needs to go on from here in another process.

        Taken while workers push: raises `StateError` where that cannot be at this moment.
        """

    @abstractmethod
    def come_back(
        self, snapshot: State | None, workers: Collection[int], anew: Collection[int] = ()
    ) -> None:
        """Go on from a snapshot, or where there is none from the values that are here already.

        These workers were there before, and each may greet it or leave. Some may have come `anew`
        since the snapshot: what it has of their seats is of others.
        """

    @abstractmethod
    def greet(self, greeting: Greeting) -> None:
        """A worker that was there before says how far it is; what it sends again comes next."""


def busy(what: str) -> StateError:
    """The error of a state that was asked for while something was under way."""
    reason = "still to be applied: a state is taken while all workers rest"
    return StateError("application", what, reason)
