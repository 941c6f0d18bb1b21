"""The functions of `import paceline` that a training script calls."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, TypeVarTuple, overload

from paceline.scripting.current import current

T = TypeVar("T")
U = TypeVar("U")
Ts = TypeVarTuple("Ts")


@overload
def wrap(only: T, /) -> T: ...


@overload
def wrap(first: T, second: U, /, *others: *Ts) -> tuple[T, U, *Ts]: ...


def wrap(first: Any, /, *others: Any) -> Any:  # type: ignore[misc]  # mypy and *Ts
    """Have modules, optimizers and loaders take part in the run; outside of one, do nothing.

    Call it once, before the training loop, with everything that is trained:

        model, optimizer, loader = paceline.wrap(model, optimizer, loader)

    Modules and optimizers are given back as they are: the same objects, with the same state and
    attributes. Loaders are new ones, which give each worker its share. All workers continue with
    worker 0's parameters and buffers.
    """
    run, objects = current(), (first, *others)
    given = objects if run is None else run.wrap(objects)
    return given[0] if len(given) == 1 else given


def log(**metrics: Any) -> None:
    """Keep values by name, such as `loss` and `accuracy`; outside of a run, do nothing.

    `loss` outside of `evaluating()` is the training loss of the step that is under way.
    """
    run = current()
    if run is not None:
        run.log(metrics)


def evaluating(*, shared: bool = False) -> AbstractContextManager[None]:
    """Evaluate in a `with` block: all workers come to it, and the training clock stands still.

    Each is given all rows, and worker 0's values are kept. With `shared=True` each is given its
    share of the rows of the loaders that were wrapped, and the mean of all workers' values is
    kept, weighted by rows.
    """
    run = current()
    return nullcontext() if run is None else run.evaluating(shared=shared)


def no_sync(*modules: Any) -> AbstractContextManager[None]:
    """Only add up gradients in a `with` block: what `backward` computes there stays here."""
    del modules
    run = current()
    return nullcontext() if run is None else run.no_sync()


def rank() -> int:
    """Which worker this is, from 0 on; outside of a run, 0."""
    run = current()
    return 0 if run is None else run.rank


def num_workers() -> int:
    """How many workers the run has; outside of a run, 1."""
    run = current()
    return 1 if run is None else run.num_workers


def is_main() -> bool:
    """Whether this is worker 0, or no run at all: who prints, saves and downloads."""
    run = current()
    return run is None or run.is_main
