"""A worker's copy of the model, its parameters and gradients each one stretch of memory."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from paceline.errors import Problem, SpecError


@final
class Rows(nn.Module):
    """A table of parameters of which each batch touches few rows.

    It holds no table: `window` has the rows of the current batch, put there before the forward
    pass by whoever keeps the table, and is where their gradients appear. A batch names rows by
    their position in the window.
    """

    window: Tensor

    def __init__(self, num_rows: int, width: int = 1) -> None:
        super().__init__()
        self.num_rows = num_rows
        self.width = width
        self.register_buffer("window", torch.zeros(0, width), persistent=False)

    def forward(self, positions: Tensor, weights: Tensor) -> Tensor:
        """Sum the named rows of each sample, each times its weight."""
        return nn.functional.embedding_bag(
            positions, self.window, mode="sum", per_sample_weights=weights
        )


@final
class Replica:
    """A model whose parameters lie one after the other in one vector, and so do its gradients.

    Strategies then move, add and apply plain stretches of memory; the model sees its parameters
    as views of it. The order is that of `model.parameters()`, parameters that need no gradient
    left out.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype = torch.float32) -> None:
        _check(model)
        self.model = model.to(dtype)
        trained = {k: p for k, p in model.named_parameters() if p.requires_grad}
        num_values = sum(parameter.numel() for parameter in trained.values())
        self.places: dict[nn.Parameter, slice] = {}
        start = 0
        for parameter in trained.values():
            self.places[parameter] = slice(start, start + parameter.numel())
            start += parameter.numel()
        self.move_to(
            parameters=torch.empty(num_values, dtype=dtype),
            gradients=torch.zeros(num_values, dtype=dtype),
        )
        self.table = next((each for each in model.modules() if isinstance(each, Rows)), None)

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

    def _move(self, parameter: nn.Parameter, place: slice) -> None:
        """Make a parameter and its gradient views of the two vectors, strides kept."""
        # Strides are kept where they leave no gaps; a parameter cut out of another gets its own.
        layout = (parameter.shape, torch.empty_like(parameter, device="meta").stride())
        values = self.parameters[place].as_strided(*layout)
        values.copy_(parameter.data)
        parameter.data = values
        parameter.grad = self.gradients[place].as_strided(*layout)


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
