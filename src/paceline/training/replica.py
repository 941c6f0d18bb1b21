"""A worker's copy of the model, its parameters and gradients each one stretch of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import numpy as np
import torch
from torch import Tensor, nn

from paceline.errors import Problem, SpecError
from paceline.training.rows import Rows
from paceline.training.state import State, Stateful, StateReader

# As torch aligns its own memory.
_ALIGNED_BYTES: Final = 64


@final
class Replica(Stateful):
    """A model whose parameters lie one after the other in one vector, and so do its gradients.

    Strategies then move, add and apply plain stretches of memory; the model sees its parameters
    as views of it. The order is that of `model.parameters()`, parameters that need no gradient
    left out.

    A table of rows stays with whoever keeps it, unless `whole_table` makes it one more parameter.
    """

    def __init__(
        self,
        model: nn.Module,
        dtype: torch.dtype = torch.float32,
        *,
        whole_table: bool = False,
    ) -> None:
        _check(model)
        tables = [each for each in model.modules() if isinstance(each, Rows)]
        if whole_table:
            for each in tables:
                each.hold_all()
        self.converted = _converted(model, dtype)
        """Parameters and buffers of a dtype that is not kept, in words; empty: none."""
        self.model = model.to(dtype)
        self.table: Rows | None = None if whole_table or not tables else tables[0]
        self._held = tables[0] if whole_table and tables else None
        trained = {k: p for k, p in model.named_parameters() if p.requires_grad}
        num_values = sum(parameter.numel() for parameter in trained.values())
        self.places: dict[nn.Parameter, slice] = {}
        start = 0
        for parameter in trained.values():
            self.places[parameter] = slice(start, start + parameter.numel())
            start += parameter.numel()
        self.move_to(
            parameters=torch.empty(num_values, dtype=dtype),
            gradients=_untouched_zeros(num_values, dtype),
        )

    def bringer(self, pull: Callable[[Tensor], None]) -> Callable[[Tensor], None]:
        """Say how a batch's rows come before the model: pulled, or only named if all are here."""
        return pull if self._held is None else self._held.look_at

    def state(self) -> State:
        """Give parameters and buffers; what a model remembers elsewhere is not seen."""
        return {"parameters": self.parameters, "frozen": self._frozen(), "buffers": self._buffers()}

    def load(self, state: State) -> None:
        with StateReader(state) as fields, torch.no_grad():
            fields.fill("parameters", self.parameters)
            fields.fill_all("frozen", self._frozen())
            fields.fill_all("buffers", self._buffers())

    def _frozen(self) -> dict[str, Tensor]:
        named = self.model.named_parameters()
        return {name: each.detach() for name, each in named if each not in self.places}

    def _buffers(self) -> dict[str, Tensor]:
        return dict(self.model.named_buffers())

    def to_keep(self) -> dict[str, Tensor]:
        """Give what a trained model consists of, a table that is here whole as `rows`."""
        state = dict(self.model.state_dict())
        if self._held is None or self._held.held is None:
            return state
        (name,) = [key for key, each in self.model.named_parameters() if each is self._held.held]
        state["rows"] = state.pop(name)
        return state

    @property
    def num_bytes(self) -> int:
        """How many bytes all parameters take, a table that is kept elsewhere included."""
        values = self.parameters
        kept = self.table.num_rows * self.table.width if self.table is not None else 0
        return values.nbytes + kept * values.element_size()

    @property
    def row_bytes(self) -> int | None:
        """How long a row of the model's table is, wherever that is kept."""
        table = self.table or self._held
        return None if table is None else table.width * self.parameters.element_size()

    @property
    def has_buffers(self) -> bool:
        """Whether there is more to the model than parameters: statistics of batches, say."""
        parameters = dict(self.model.named_parameters(remove_duplicate=False))
        return not self.model.state_dict().keys() <= parameters.keys()

    def move_to(self, *, parameters: Tensor, gradients: Tensor) -> None:
        """Lay the model out in memory that is given: shared with others, for example."""
        self.parameters, self.gradients = parameters, gradients
        for parameter, place in self.places.items():
            self._move(parameter, place)

    def let_go(self) -> None:
        """Give the memory back; only sizes and types are left."""
        self.parameters = torch.empty_like(self.parameters, device="meta")
        self.gradients = torch.empty_like(self.gradients, device="meta")
        for parameter in self.places:
            parameter.grad, parameter.data = None, parameter.data.new_empty(0)

    def _move(self, parameter: nn.Parameter, place: slice) -> None:
        """Make a parameter and its gradient views of the two vectors, strides kept."""
        # Strides are kept where they leave no gaps; a parameter cut out of another gets its own.
        layout = (parameter.shape, torch.empty_like(parameter, device="meta").stride())
        values = self.parameters[place].as_strided(*layout)
        values.copy_(parameter.data)
        parameter.data = values
        parameter.grad = self.gradients[place].as_strided(*layout)


def _untouched_zeros(num_values: int, dtype: torch.dtype) -> Tensor:
    """Zeros that take no memory before somebody writes: a server, for one, needs no gradients."""
    room = np.zeros(num_values * dtype.itemsize + _ALIGNED_BYTES, np.uint8)
    start = -room.ctypes.data % _ALIGNED_BYTES
    return torch.from_numpy(room[start : start + num_values * dtype.itemsize]).view(dtype)


def _converted(model: nn.Module, dtype: torch.dtype) -> str:
    """Name what was made with a dtype of its own and gets another; float32 is everybody's."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    kept = {torch.float32, dtype}
    odd = [(name, e.dtype) for name, e in tensors if e.is_floating_point() and e.dtype not in kept]
    if not odd:
        return ""
    name, its = odd[0]
    more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
    return (
        f"{name!r}{more} of the model is {_word(its)}, and is trained as {_word(dtype)}: one dtype "
        "for all, float32 or float64, as the field dtype says"
    )


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check(model: nn.Module) -> None:
    """Say what cannot be laid out, or would be left out."""
    odd = [name for name, each in model.named_parameters() if not each.is_floating_point()]
    if odd:
        reason = "parameters that are not real numbers"
        raise SpecError([Problem("workload.model", ", ".join(odd), reason)])
    tables = [name for name, each in model.named_modules() if isinstance(each, Rows)]
    if len(tables) > 1:
        raise SpecError(
            [Problem("workload.model", ", ".join(tables), "more than one table of Rows")]
        )
