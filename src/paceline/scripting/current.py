"""The seam between a user's script and the run that it is part of, if it is part of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final


class ScriptRun(ABC):
    """A run as one of its seats' scripts sees it. Used by the script's main thread."""

    is_main: bool
    """Whether what the script prints is shown: worker 0."""
    rank: int
    num_workers: int

    @abstractmethod
    def wrap(self, objects: tuple[Any, ...]) -> tuple[Any, ...]:
        """Take part with these modules, optimizers and loaders; gives them back in their order."""

    @abstractmethod
    def log(self, metrics: Mapping[str, Any]) -> None:
        """Keep values by name."""

    @abstractmethod
    def evaluating(self, *, shared: bool) -> AbstractContextManager[None]:
        """Stop the training clock while the block runs, on all workers.

        `shared`: each is given its share of the rows, and what is logged is joined.
        """

    def lost_peer(self, error: Exception) -> Exception | None:
        """Where an error only says that another seat is gone, give the one that says which."""
        del error
        return None

    def is_done_before(self, error: Exception, said: str) -> bool:
        """Whether all of training was done when the script raised an error; keeps what is said."""
        del error, said
        return False

    @abstractmethod
    def no_sync(self) -> AbstractContextManager[None]:
        """Only add up gradients while the block runs."""


class ScriptOver(BaseException):
    """Raised in a script that has nothing more to do here; no error, and caught by nobody else."""


# One script per process, as Python has one `__main__`: a list, so that it can be looked up cheaply.
_CURRENT: Final[list[ScriptRun]] = []


def current() -> ScriptRun | None:
    """Give the run that this process's script is part of; None: it was started by itself."""
    return _CURRENT[-1] if _CURRENT else None


@contextmanager
def taking_part(run: ScriptRun) -> Iterator[None]:
    """Have the script that runs inside find the run."""
    _CURRENT.append(run)
    try:
        yield
    finally:
        _CURRENT.remove(run)
