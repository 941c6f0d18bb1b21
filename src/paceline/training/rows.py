"""A table of parameters of which a batch touches few rows: the model's side of it."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn


@final
class Rows(nn.Module):
    """A table of parameters of which each batch touches few rows.

    It holds no table: `window` has the rows of the current batch, put there before the forward
    pass by whoever keeps the table, and is where their gradients appear. A batch names rows by
    their position in the window. Where a strategy moves all parameters whole, the table is `held`
    here as one more of them instead, and `window` is not used.
    """

    held: nn.Parameter | None

    def __init__(self, num_rows: int, width: int = 1) -> None:
        super().__init__()
        self.num_rows = num_rows
        self.width = width
        self.window = torch.zeros(0, width)  # no buffer: it is set anew for every batch
        self.register_parameter("held", None)
        self._rows = torch.zeros(0, dtype=torch.int64)

    def hold_all(self) -> None:
        """Hold the whole table, as a parameter."""
        self.held = nn.Parameter(torch.zeros(self.num_rows, self.width))

    def look_at(self, rows: Tensor) -> None:
        """Take note which rows of the held table the next batch's positions mean."""
        self._rows = rows

    def show(self, values: Tensor) -> None:
        """Put the rows of the next batch into the window."""
        # Past torch's own way, which looks at each attribute whether it is a parameter or a module.
        self.__dict__["window"] = values.requires_grad_()

    def forward(
        self, positions: Tensor, weights: Tensor | None = None, bags: Tensor | None = None
    ) -> Tensor:
        """Sum the named rows of each sample, each times its weight if there are weights.

        Samples with as many rows each: `positions` is a matrix, a line a sample. Else it is a
        vector, and `bags` says where each sample begins in it, and where the last one ends.
        """
        table = self.window
        if self.held is not None:
            table = self.held
            positions = self._rows.index_select(0, positions.reshape(-1)).view(positions.shape)
        summed: Tensor = _Sums.apply(table, positions, weights, bags)  # type: ignore[no-untyped-call]
        return summed


class _Sums(torch.autograd.Function):
    """The sums that `Rows` gives, and the gradient of its table.

    `embedding_bag` is the same, but sorts all positions on its way back, which takes twenty times
    as long as adding up where rows are few and narrow.
    """

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, positions: Tensor, weights: Tensor | None, bags: Tensor | None
    ) -> Tensor:
        flat, vector = positions.reshape(-1), narrow(table)
        num_bags = len(positions) if bags is None else len(bags) - 1
        owners = None if bags is None else _owners(bags)
        values = vector.index_select(0, flat)
        if weights is not None:
            weights = weights.reshape(-1, *[1] * (vector.dim() - 1))
            values.mul_(weights)
        ctx.kept = (table.shape, flat, weights, owners, num_bags)
        if owners is None:
            summed = values.view(*positions.shape, *vector.shape[1:]).sum(1)
        else:
            summed = values.new_zeros(num_bags, *vector.shape[1:]).index_add_(0, owners, values)
        return summed.view(num_bags, table.shape[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None, None]:
        shape, flat, weights, owners, num_bags = ctx.kept
        gradient = narrow(gradients[0])
        if owners is None:
            each = len(flat) // max(1, num_bags)
            spread = gradient.repeat_interleave(each, 0)
        else:
            spread = gradient.index_select(0, owners)
        if weights is not None:
            spread.mul_(weights)
        total = gradient.new_zeros(shape)
        narrow(total).index_add_(0, flat, spread)
        return total, None, None, None


def narrow(table: Tensor) -> Tensor:
    """A table of one column as a vector: of those, torch takes rows three times as fast."""
    return table.view(-1) if table.shape[1] == 1 else table


def _owners(bags: Tensor) -> Tensor:
    """To which sample each of the rows belongs."""
    return torch.arange(len(bags) - 1).repeat_interleave(bags.diff())
