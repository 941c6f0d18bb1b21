"""Training without any exchange: one worker, or several that know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, final

from paceline.errors import Problem
from paceline.finite import are_finite, flaw_of
from paceline.optim import Update
from paceline.strategies import STRATEGIES
from paceline.strategies.base import Member, Place, Strategy

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor


@final
class Single(Strategy):
    """One worker: the reference every other strategy is compared with."""

    sparse: bool = True
    """Whether a step touches only the rows of a table that its batch does, or all of it."""

    @property
    def name(self) -> str:
        return "single"

    @property
    def moves_rows(self) -> bool:
        return self.sparse

    @property
    def equals_single(self) -> bool:
        return True

    @property
    def repeats(self) -> bool:
        return True

    def meaning(self, num_workers: int) -> str:
        del num_workers
        return "one worker"

    def group_problems(self, num_workers: int) -> Iterator[Problem]:
        if num_workers != 1:
            reason = "single has one worker; for more, choose another with --strategy"
            others = tuple(each for each in STRATEGIES.entries if each != self.name)
            yield Problem("num_workers", num_workers, reason, others)

    def join(self, place: Place) -> Member:
        return _Alone(place, shared=True)


@final
class Solo(Strategy):
    """Every worker for itself, no exchange: the bound that computing alone sets to the others."""

    sparse: bool = True

    @property
    def name(self) -> str:
        return "solo"

    @property
    def moves_rows(self) -> bool:
        return self.sparse

    @property
    def repeats(self) -> bool:
        return True

    @property
    def counts_steps(self) -> bool:
        return False

    def meaning(self, num_workers: int) -> str:
        return f"{num_workers} independent workers"

    def join(self, place: Place) -> Member:
        return _Alone(place, shared=False)


@final
class _Alone(Member):
    """A worker that applies its own gradients to its own parameters."""

    def __init__(self, place: Place, *, shared: bool) -> None:
        self.replica = place.replica
        self._gradients = place.replica.gradients.numpy()
        self._learns = place.learns
        self._refusals = place.refusals
        self.update = Update(place.optimizer, place.replica.parameters)
        self.num_updates = 0
        self.global_steps = 0 if shared else None
        self.rows: Tensor | None = None
        table = place.replica.table
        if table is not None:
            values = place.replica.parameters.new_zeros(table.num_rows, table.width)
            self.row_update = Update(place.optimizer, values)

    def pull(self, rows: Tensor) -> None:
        assert self.replica.table is not None
        self.rows = rows
        self.replica.table.window = self.row_update.rows(rows).requires_grad_()

    def table_values(self) -> Tensor | None:
        return None if self.replica.table is None else self.row_update.parameters

    def exchange(self, *, last: bool) -> bool:
        rows = None if self.rows is None else self._row_gradients()
        if self._learns and not (
            are_finite(self._gradients) and (rows is None or are_finite(_flat(rows)))
        ):
            self._refuse(rows)
            return last
        self.num_updates += 1
        if self.global_steps is not None:
            self.global_steps = self.num_updates
        self.update.apply(self.replica.gradients, self.num_updates)
        if rows is not None and self.rows is not None:
            self.row_update.apply_rows(self.rows, rows, self.num_updates)
        return last

    def _row_gradients(self) -> Tensor:
        assert self.replica.table is not None
        gradients = self.replica.table.window.grad
        assert gradients is not None
        return gradients

    def _refuse(self, rows: Tensor | None) -> None:
        values = [self._gradients] if rows is None else [self._gradients, _flat(rows)]
        self._refusals.note(flaw_of(*values), after=self.num_updates)


def _flat(rows: Tensor) -> npt.NDArray[Any]:
    return rows.numpy().reshape(-1)
