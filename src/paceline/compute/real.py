"""Real gradients: forward and backward through autograd, or by a formula that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from torch import Tensor, nn

from paceline.answers import check_loss
from paceline.compute.base import Compute
from paceline.compute.watch import Watch
from paceline.replica import Replica

Loss = Callable[[nn.Module, Sequence[Tensor]], Tensor]
Formula = Callable[[nn.Module, Sequence[Tensor]], float | None]


@final
class Real(Compute):
    """Calls `ready`, if given, for each parameter the moment back-propagation has finished it."""

    def __init__(
        self,
        loss: Loss,
        replica: Replica,
        ready: Callable[[nn.Parameter], None] | None,
        model: nn.Module | None = None,
        *,
        formula: Formula | None = None,
        keeps_changes: bool = True,
    ) -> None:
        """`model` is what to call in the place of the replica's own.

        `formula` gives loss and gradients without back-propagation, or None where it cannot.
        `keeps_changes` is as of a `Watch`.
        """
        self._loss = loss
        self._formula = formula
        self._model = model or replica.model
        self._gradients = replica.gradients
        self._parameters = list(replica.places)
        self._is_first = True
        self._watch = Watch(replica, keeps_changes=keeps_changes)
        self._looks_closely = self._watch.is_due
        self._ready = ready
        if ready is not None:
            for parameter in replica.places:
                parameter.register_post_accumulate_grad_hook(ready)  # type: ignore[no-untyped-call]

    def gradients(self, batch: Sequence[Tensor]) -> float:
        before = self._watch.sums() if self._looks_closely else None
        self._gradients.zero_()
        value = None if self._formula is None else self._by_formula(self._formula, batch)
        if value is None:
            value = self._back_propagate(batch)
        if before is not None:
            self._looks_closely = False
            self._watch.check_kept(before)
        return value

    def check(self) -> None:
        self._watch.check()
        self._looks_closely = self._watch.is_due

    def _back_propagate(self, batch: Sequence[Tensor]) -> float:
        loss = self._loss(self._model, batch)
        if self._is_first:
            check_loss(loss, f"{getattr(self._loss, '__qualname__', 'loss')}(model, batch)")
        loss.backward()  # type: ignore[no-untyped-call]
        if self._is_first:
            self._is_first = False
            self._watch.check()  # gradients that went elsewhere would be lost without a word
        return loss.item()

    def _by_formula(self, formula: Formula, batch: Sequence[Tensor]) -> float | None:
        loss = formula(self._model, batch)
        if loss is not None and self._ready is not None:
            for parameter in self._parameters:
                self._ready(parameter)
        return loss
