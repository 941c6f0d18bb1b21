"""A model that only waits, inside of torch's own autograd: for whoever lives there, as DDP does.

Its back-propagation waits for each layer in turn, and adds nothing to the gradients that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

Wait = Callable[[], None]


@final
class StandIn(nn.Module):
    """Has a model's parameters, in groups whose gradients become ready together, first to last."""

    def __init__(
        self, parameters: Sequence[nn.Parameter], groups: Sequence[tuple[Wait, list[nn.Parameter]]]
    ) -> None:
        super().__init__()
        self._all = nn.ParameterList(parameters)
        self._groups = groups

    def forward(self, start: Tensor) -> Tensor:
        value = start
        # Back-propagation begins at the end, so what is ready first comes last.
        for wait, parameters in reversed(self._groups):
            value = _Layer.apply(wait, value, *parameters)  # type: ignore[no-untyped-call]
        return value


@final
class _Layer(torch.autograd.Function):
    """Passes a value on; on the way back it waits, then says that its gradients are there."""

    @staticmethod
    def forward(ctx: Any, wait: Wait, value: Tensor, *parameters: Tensor) -> Tensor:
        ctx.wait = wait
        ctx.parameters = parameters
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.wait()
        nothing = [each.new_zeros(1).expand(each.shape) for each in ctx.parameters]
        return None, gradients[0], *nothing
