"""Real gradients on a device with memory of its own; the replica stays in the host's.

Strategies see a replica in the host's memory, as always. Before each step its parameters go to a
second one on the device; gradients come back one by one, as back-propagation finishes them, where
the strategy sends them off then, else all at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor, nn

from paceline.compute.base import Compute
from paceline.compute.devices import Device
from paceline.errors import Problem, SpecError
from paceline.training.answers import check_loss
from paceline.training.replica import Replica

LossFunction = Callable[[nn.Module, Sequence[Tensor]], Tensor]


@final
class Placed(Compute):
    """Computes on a device."""

    def __init__(
        self,
        loss: LossFunction,
        replica: Replica,
        ready: Callable[[nn.Parameter], None] | None,
        device: Device,
    ) -> None:
        if replica.table is not None:
            reason = "models with a table of rows are trained on the CPU; use --device cpu"
            raise SpecError([Problem("device", type(device).__name__, reason)])
        self._loss = loss
        self._near = replica
        self._ready = ready
        self._device = device
        self._far = _far_copy(replica, device)
        self._staged = device.staging(replica.gradients)
        self._num_batches = 0
        self._is_first = True
        self._hooked = True
        self._pairs = dict(zip(self._far.places, replica.places, strict=True))
        if ready is not None:
            for parameter in self._far.places:
                parameter.register_post_accumulate_grad_hook(self._bring_one)  # type: ignore[no-untyped-call]

    def gradients(self, batch: Sequence[Tensor]) -> float:
        self._hooked = self._num_batches == 0
        value = self._add(batch)
        if self._num_batches > 1:
            self._far.gradients.div_(self._num_batches)
        if not self._hooked or self._ready is None:
            self._bring_all()
        self._num_batches = 0
        return value

    def accumulate(self, batch: Sequence[Tensor]) -> float:
        self._hooked = False
        return self._add(batch)

    def settle(self) -> None:
        """Bring buffers back, such as statistics of batches: they are learnt on the device."""
        near = dict(self._near.model.named_buffers())
        for name, each in self._far.model.named_buffers():
            self._device.copy(each, near[name])

    def _add(self, batch: Sequence[Tensor]) -> float:
        """Compute one batch, and add its gradients to those of the step."""
        if not self._num_batches:
            self._device.copy(self._near.parameters, self._far.parameters)
            self._far.gradients.zero_()
        self._num_batches += 1
        there = [self._device.there(each) for each in batch]
        near = [self._near.parameters, self._near.gradients, *batch]
        with self._device.computing(near):
            loss = self._loss(self._far.model, there)
            if self._is_first:
                self._is_first = False
                check_loss(loss, f"{getattr(self._loss, '__qualname__', 'loss')}(model, batch)")
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.item()

    def _bring_one(self, parameter: nn.Parameter) -> None:
        """Bring a gradient back the moment it is finished, and say so."""
        if not self._hooked:
            return
        place = self._far.places[parameter]
        self._bring(place)
        with self._device.at_host():
            assert self._ready is not None
            self._ready(self._pairs[parameter])

    def _bring_all(self) -> None:
        self._bring(slice(0, self._far.gradients.numel()))
        if self._ready is not None:
            for parameter in self._near.places:
                self._ready(parameter)

    def _bring(self, place: slice) -> None:
        """Copy through memory that the device reaches quickly: the replica's may be shared."""
        self._device.copy(self._far.gradients[place], self._staged[place])
        with self._device.at_host():
            self._near.gradients[place].copy_(self._staged[place])


def _far_copy(replica: Replica, device: Device) -> Replica:
    """Make the same model on the device: parameters and gradients as one vector each."""
    model = copy.deepcopy(replica.model)
    far = Replica(model, replica.parameters.dtype)
    with torch.no_grad():
        far.move_to(parameters=device.there(far.parameters), gradients=device.there(far.gradients))
        for parameter in model.parameters():
            if parameter not in far.places:
                parameter.data = device.there(parameter.data)
        for module in model.modules():
            for name, each in [*module.named_buffers(recurse=False)]:
                setattr(module, name, device.there(each))
    return far
