"""Real gradients: forward and backward through autograd, or by a formula that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import final

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from paceline.compute.awaiting import Awaiting
from paceline.compute.base import Compute
from paceline.compute.watch import ParameterWatch
from paceline.training.answers import check_loss
from paceline.training.replica import Replica

LossFunction = Callable[[nn.Module, Sequence[Tensor]], Tensor]
Formula = Callable[[nn.Module, Sequence[Tensor]], float | None]


@final
class Real(Compute):
    """Calls `ready`, if given, for each parameter the moment back-propagation has finished it."""

    def __init__(
        self,
        loss: LossFunction,
        replica: Replica,
        ready: Callable[[nn.Parameter], None] | None,
        model: nn.Module | None = None,
        *,
        formula: Formula | None = None,
        keeps_changes: bool = True,
        awaiting: Awaiting | None = None,
    ) -> None:
        """`model` is what to call in the place of the replica's own.

        `formula` gives loss and gradients without back-propagation, or None where it cannot.
        `keeps_changes` is as of a `ParameterWatch`. `awaiting`: parameters may still be under way
        when a step begins, and gradients of the step before.
        """
        self._loss = loss
        self._formula = formula
        self._model = model or replica.model
        self._gradients = replica.gradients
        self._parameters = list(replica.places)
        self._is_first = True
        self._watch = ParameterWatch(replica, keeps_changes=keeps_changes)
        self._looks_closely = self._watch.is_due
        self._ready = ready
        self._awaiting = awaiting
        self._num_accumulated = 0
        self._hooks: list[RemovableHandle] = []
        self._hook()

    def gradients(self, batch: Sequence[Tensor]) -> float:
        if self._num_accumulated:
            return self._mean_gradients(batch)
        if self._awaiting is not None and self._formula is None:
            return self._awaiting_gradients(self._awaiting, batch)
        before = self._watch.sums() if self._looks_closely else None
        self._gradients.zero_()
        value = None if self._formula is None else self._by_formula(self._formula, batch)
        if value is None:
            value = self._back_propagate(batch)
        if before is not None:
            self._looks_closely = False
            self._watch.check_kept(before)
        return value

    def _awaiting_gradients(self, awaiting: Awaiting, batch: Sequence[Tensor]) -> float:
        """Compute while parameters arrive; once all have, no gradient is under way any more."""
        closely = self._looks_closely or self._is_first
        if closely:
            awaiting.until()
        before = self._watch.sums() if self._looks_closely else None
        with awaiting.forward(closely=closely):
            loss = self._loss(self._model, batch)
        awaiting.until()
        self._gradients.zero_()
        value = self._back_propagate_loss(loss)
        if before is not None:
            self._looks_closely = False
            self._watch.check_kept(before)
        return value

    def accumulate(self, batch: Sequence[Tensor]) -> float:
        if not self._num_accumulated:
            if self._awaiting is not None:
                self._awaiting.until()
            self._gradients.zero_()
            self._unhook()
        self._num_accumulated += 1
        # Where torch averages gradients inside of back-propagation, not those of a part.
        with getattr(self._model, "no_sync", nullcontext)():
            return self._add(batch)

    def _mean_gradients(self, batch: Sequence[Tensor]) -> float:
        """Compute the last of a step's several batches; then all gradients are ready at once."""
        value = self._add(batch)
        self._gradients.div_(self._num_accumulated + 1)
        self._num_accumulated = 0
        if self._ready is not None:
            self._tell_all(self._ready)
        self._hook()
        return value

    def _add(self, batch: Sequence[Tensor]) -> float:
        loss = None if self._formula is None else self._formula(self._model, batch)
        return self._back_propagate(batch) if loss is None else loss

    def _hook(self) -> None:
        """Have each parameter told of the moment its gradient is finished."""
        if self._ready is not None:
            for parameter in self._parameters:
                self._hooks.append(parameter.register_post_accumulate_grad_hook(self._ready))  # type: ignore[no-untyped-call]

    def _unhook(self) -> None:
        for each in self._hooks:
            each.remove()
        self._hooks.clear()

    def check(self) -> None:
        self._watch.check()
        self._looks_closely = self._watch.is_due

    def _back_propagate(self, batch: Sequence[Tensor]) -> float:
        return self._back_propagate_loss(self._loss(self._model, batch))

    def _back_propagate_loss(self, loss: Tensor) -> float:
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
            self._tell_all(self._ready)
        return loss

    def _tell_all(self, ready: Callable[[nn.Parameter], None]) -> None:
        for parameter in self._parameters:
            ready(parameter)
