"""Training without any exchange: one worker, or several that know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, final

from paceline.arithmetic.exchange import NoExchange
from paceline.errors import Problem
from paceline.strategies import STRATEGIES
from paceline.strategies.base import Member, Place, Strategy
from paceline.training.finite import are_finite, flaw_of
from paceline.training.optim import Update
from paceline.training.state import State, StateReader, attributes

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

    from paceline.training.row_update import RowUpdate
    from paceline.training.rows import Rows


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
    def in_step(self) -> bool:
        return True

    @property
    def repeats(self) -> bool:
        return True

    @property
    def scripts(self) -> Literal["alone"]:
        return "alone"

    def meaning(self, num_workers: int) -> str:
        del num_workers
        return "one worker"

    def group_problems(self, num_workers: int) -> Iterator[Problem]:
        if num_workers != 1:
            reason = "single has one worker; for more, choose another with --strategy"
            others = tuple(each for each in STRATEGIES.entries if each not in (self.name, "own"))
            yield Problem("num_workers", num_workers, reason, others)

    def pattern(self, num_workers: int) -> NoExchange:
        del num_workers
        return NoExchange()

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
    def in_step(self) -> bool:
        return False

    @property
    def repeats(self) -> bool:
        return True

    @property
    def counts_steps(self) -> bool:
        return False

    @property
    def scripts(self) -> Literal["alone"]:
        return "alone"

    def meaning(self, num_workers: int) -> str:
        return f"{num_workers} independent workers"

    def pattern(self, num_workers: int) -> NoExchange:
        del num_workers
        return NoExchange()

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
            self.row_update = _row_update(place, table)

    def pull(self, rows: Tensor) -> None:
        assert self.replica.table is not None
        self.rows = rows
        self.replica.table.show(self.row_update.rows(rows))

    def table_values(self) -> Tensor | None:
        return None if self.replica.table is None else self.row_update.table()

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
            self.row_update.apply(self.rows, rows, self.num_updates)
        return last

    def state(self) -> State:
        table = self.table_values()
        return {
            **attributes(self, "num_updates", "update"),
            **({} if table is None else {"table": table, "row_update": self.row_update.state()}),
        }

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "num_updates", "update")
            if self.replica.table is not None:
                fields.fill("table", self.row_update.parameters)
                fields.part("row_update", self.row_update)
        if self.global_steps is not None:
            self.global_steps = self.num_updates

    def adopt(self, state: State) -> None:
        self.load(state)  # nothing of it is about others

    def _row_gradients(self) -> Tensor:
        assert self.replica.table is not None
        gradients = self.replica.table.window.grad
        assert gradients is not None
        return gradients

    def _refuse(self, rows: Tensor | None) -> None:
        values = [self._gradients] if rows is None else [self._gradients, _flat(rows)]
        self._refusals.note(flaw_of(*values), after=self.num_updates)


def _row_update(place: Place, table: Rows) -> RowUpdate:
    from paceline.training.row_update import RowUpdate, new_table, values_per_row

    num_values = values_per_row(place.optimizer, table.width)
    values = new_table(table.num_rows, num_values, place.replica.parameters.dtype)
    return RowUpdate(place.optimizer, values, table.width)


def _flat(rows: Tensor) -> npt.NDArray[Any]:
    return rows.numpy().reshape(-1)
