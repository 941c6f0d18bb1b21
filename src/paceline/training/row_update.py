"""An optimizer on a table of which each update touches few rows."""

from __future__ import annotations

from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from paceline.errors import Problem, SpecError
from paceline.system import huge_pages
from paceline.training.optim import Optimizer, learning_rate
from paceline.training.state import State, Stateful, StateReader

# By how many bytes a row has: what numpy takes and puts as one number.
_ITEMS: Final = {4: np.uint32, 8: np.uint64, 16: np.complex128}


def values_per_row(optimizer: Optimizer, width: int) -> int:
    """Say how many values a row takes with its states.

    A weight and two states are four, so that no row lies across two cache lines.
    """
    if not optimizer.fits_rows:
        reason = "it cannot update single rows of a table: what it remembers does not begin as zero"
        raise SpecError([Problem("optimizer", optimizer.name, reason)])
    count = 1 + optimizer.num_states
    return 4 if count == 3 and width == 1 else width * count


def new_table(num_rows: int, num_values: int, dtype: torch.dtype) -> Tensor:
    """Make a table of zeros in this process's own memory."""
    memory = huge_pages.zeros(num_rows * num_values * dtype.itemsize)
    count = num_rows * num_values
    values = torch.frombuffer(memory, dtype=dtype, count=count) if count else torch.empty(0)
    return values.to(dtype).view(num_rows, num_values)


@final
class RowUpdate(Stateful):
    """An optimizer and a table, whose rows it changes in place: each has its states beside it.

    So a row that is touched is one cache line, whatever the optimizer remembers. The parameters
    are not part of the state, nor is the number of updates: as of an `Update`.
    """

    def __init__(self, optimizer: Optimizer, table: Tensor, width: int) -> None:
        """`table` has `values_per_row` columns: parameters, then states, then what fills it up."""
        self.optimizer = optimizer
        self._table = table
        self._width = width
        self._lr = learning_rate(optimizer)
        starts = range(0, width * (1 + optimizer.num_states), width)
        self._columns = [slice(start, start + width) for start in starts]
        self.parameters, *self._states = [table[:, each] for each in self._columns]
        self._items = _items(table)
        self._dtype = table.numpy().dtype
        self._column = self.parameters.numpy()[:, 0] if width == 1 else None

    def rows(self, rows: Tensor) -> Tensor:
        """Give the parameters of the rows named, as they are now."""
        return rows_of(self.parameters, self._column, rows)

    def table(self) -> Tensor:
        """Give all parameters without gaps: a copy, where states lie between them."""
        return self.parameters.contiguous()

    def apply(self, rows: Tensor, gradient: Tensor, number: int) -> None:
        """Carry out update `number` on the rows named, each of which must be named once."""
        if self.optimizer.only_adds:
            alpha = -self._lr(number)
            vector = self._table.shape[1] == 1  # of a vector, torch adds to rows much faster
            shape = (-1,) if vector else (-1, self._width)
            self._table.view(shape).index_add_(0, rows, gradient.view(shape), alpha=alpha)
            return
        touched = self._take(rows)
        gradient = gradient.view(-1, self._width)
        parameters, *states = [touched[:, each] for each in self._columns]
        self.optimizer.step(parameters, states, gradient, number, self._lr(number))
        self._put(rows, touched)

    def _take(self, rows: Tensor) -> Tensor:
        if self._items is None:
            return self._table.index_select(0, rows)
        items = self._items.take(rows.numpy())
        return torch.from_numpy(items.view(self._dtype).reshape(-1, self._table.shape[1]))

    def _put(self, rows: Tensor, touched: Tensor) -> None:
        if self._items is None:
            self._table.index_copy_(0, rows, touched)
        else:
            self._items[rows.numpy()] = touched.numpy().reshape(-1).view(self._items.dtype)

    def state(self) -> State:
        slots = {f"slot{index}": each.contiguous() for index, each in enumerate(self._states)}
        return {"optimizer": self.optimizer.name, **slots}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.expect("optimizer", self.optimizer.name)
            for index, values in enumerate(self._states):
                fields.fill(f"slot{index}", values)


def rows_of(parameters: Tensor, column: npt.NDArray[Any] | None, rows: Tensor) -> Tensor:
    """Take rows of a table; `column` is the same parameters where they are but one per row."""
    if column is None:
        return parameters.index_select(0, rows)
    return torch.from_numpy(column[rows.numpy()]).view(-1, 1)


def _items(table: Tensor) -> npt.NDArray[Any] | None:
    """See each row as one number, where there is a type as large as a row."""
    kind = _ITEMS.get(table.shape[1] * table.element_size())
    return None if kind is None else table.numpy().reshape(-1).view(kind)
