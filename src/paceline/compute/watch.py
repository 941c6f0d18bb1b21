"""Notices when something other than the optimizer changes what is trained.

Parameters are laid out once, at the start; whoever replaces their memory, or lets others require a
gradient, would train something else than is exchanged, without a word. Pointers and flags are
compared with every row of the records. Where a worker has only a copy of its parameters, a change
by the model itself would be lost: the values before and after a step are compared now and then.
"""

from __future__ import annotations

import zlib
from time import perf_counter_ns
from typing import Final, final

import torch
from torch import Tensor, nn

from paceline.errors import Changed
from paceline.training.replica import Replica

# Comparing values may take this part of the time.
_SHARE: Final = 1 / 500


@final
class ParameterWatch:
    """What a model's parameters were like when training began."""

    def __init__(self, replica: Replica, *, keeps_changes: bool = True) -> None:
        """`keeps_changes`: what the model changes in its parameters by itself stays changed."""
        self._replica = replica
        self._keeps_changes = keeps_changes
        named = list(replica.model.named_parameters())
        self._trained = [(name, each) for name, each in named if each in replica.places]
        self._frozen = [(name, each) for name, each in named if each not in replica.places]
        self._next_look_ns = 0

    def check(self) -> None:
        """Compare pointers and flags. Raises `Changed`, which names the parameter."""
        for name, parameter in self._frozen:
            if parameter.requires_grad:
                raise Changed(_UNFROZEN.format(name))
        replica = self._replica
        values, gradients = replica.parameters.data_ptr(), replica.gradients.data_ptr()
        size = replica.parameters.element_size()
        for name, parameter in self._trained:
            start = replica.places[parameter].start * size
            self._check(name, parameter, values + start, gradients + start)

    def _check(self, name: str, parameter: nn.Parameter, values: int, gradients: int) -> None:
        if not parameter.requires_grad:
            raise Changed(_FROZEN.format(name))
        if not parameter.numel():
            return
        if parameter.data_ptr() != values:
            raise Changed(_MOVED.format(name))
        gradient = parameter.grad
        if gradient is None or gradient.data_ptr() != gradients:
            raise Changed(_GRADIENT_MOVED.format(name))

    @property
    def is_due(self) -> bool:
        """Whether it is time to compare values before and after a step."""
        return not self._keeps_changes and perf_counter_ns() >= self._next_look_ns

    def sums(self) -> list[int]:
        """Give a checksum of each parameter's values."""
        began_ns = perf_counter_ns()
        values = self._replica.parameters
        made = [_sum(values[self._replica.places[each]]) for _, each in self._trained]
        ended_ns = perf_counter_ns()
        self._next_look_ns = ended_ns + round(2 * (ended_ns - began_ns) / _SHARE)
        return made

    def check_kept(self, before: list[int]) -> None:
        """Compare values with those before the step's loss was computed."""
        for (name, _), ours, theirs in zip(self._trained, before, self.sums(), strict=True):
            if ours != theirs:
                raise Changed(_LOST.format(name))


def _sum(values: Tensor) -> int:
    return zlib.crc32(values.view(torch.uint8).numpy().data)


_UNFROZEN: Final = (
    "parameter {!r} began to require a gradient after training had begun. What is trained is laid "
    "out once: let it require one from the start; to hold it back at first, detach() it in forward"
)
_FROZEN: Final = (
    "parameter {!r} no longer requires a gradient. What is trained is laid out once: let it "
    "require one to the end; to hold it back, detach() it in forward"
)
_MOVED: Final = (
    "the memory of parameter {!r} was replaced, so updates no longer reach it. Do not assign to "
    ".data in a workload; change values in place, as with copy_() under torch.no_grad()"
)
_GRADIENT_MOVED: Final = (
    "the gradient of parameter {!r} was replaced. Do not call zero_grad() or set .grad in a "
    "workload"
)
_LOST: Final = (
    "parameter {!r} was changed while the loss was computed. Under this strategy servers keep the "
    "parameters, so such a change is lost: compute with a changed copy of it instead (clamp() for "
    "clamp_()), or use single, ring or ddp, whose workers keep their own"
)
