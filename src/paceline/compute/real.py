"""Real gradients: forward and backward through autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from torch import Tensor, nn

from paceline.compute.base import Compute
from paceline.replica import Replica

Loss = Callable[[nn.Module, Sequence[Tensor]], Tensor]


@final
class Real(Compute):
    """Calls `ready`, if given, for each parameter the moment back-propagation has finished it."""

    def __init__(
        self,
        loss: Loss,
        replica: Replica,
        ready: Callable[[nn.Parameter], None] | None,
        model: nn.Module | None = None,
    ) -> None:
        """`model` is what to call in the place of the replica's own."""
        self._loss = loss
        self._model = model or replica.model
        self._gradients = replica.gradients
        self._unchecked = list(replica.places)
        if ready is not None:
            for parameter in replica.places:
                parameter.register_post_accumulate_grad_hook(ready)  # type: ignore[no-untyped-call]

    def gradients(self, batch: Sequence[Tensor]) -> float:
        self._gradients.zero_()
        loss = self._loss(self._model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if self._unchecked:
            self._check_gradients()
        return loss.item()

    def _check_gradients(self) -> None:
        """After the first step: gradients that went elsewhere would be lost without a word."""
        storage = self._gradients.untyped_storage().data_ptr()
        for parameter in self._unchecked:
            gradient = parameter.grad
            if gradient is None or gradient.untyped_storage().data_ptr() != storage:
                raise RuntimeError(
                    "a gradient was moved while the loss was computed; "
                    "do not call zero_grad() or set .grad in a workload"
                )
        self._unchecked = []
