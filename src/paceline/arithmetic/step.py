"""A worker's step without any exchange: layer by layer, and when which gradient is finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Final, Self, final

from paceline.arithmetic.rows import RowTraffic

# A model of which only its size is known: equal layers, backward twice forward.
_LAYERS: Final = 16
_BACKWARD_SHARE: Final = 2 / 3


@final
@dataclass(frozen=True, kw_only=True)
class LayerGradient:
    """What one parameter has to exchange, and when in a step it is finished."""

    ready_s: float
    num_bytes: int


@final
@dataclass(frozen=True, kw_only=True)
class LayerCost:
    """One layer: how long it computes, and the bytes of each of its parameters."""

    forward_s: float
    backward_s: float
    parameters: tuple[int, ...] = ()
    """In the order the model lists them."""

    @property
    def num_bytes(self) -> int:
        return sum(self.parameters)

    def scaled(self, factor: float) -> Self:
        return replace(self, forward_s=factor * self.forward_s, backward_s=factor * self.backward_s)


@final
@dataclass(frozen=True, kw_only=True)
class ComputeStep:
    """A worker's step: its layers in the order they are computed, and what is done besides."""

    layers: tuple[LayerCost, ...]
    update_s: float = 0.0
    """How long a worker takes to apply an update, where it is the one to do so."""
    fixed_s: float = 0.0
    """What else each step takes: loading a batch, the loop."""
    factors: tuple[float, ...] = field(default=())
    """Measured steps over the typical one; empty: all are alike."""
    rows: RowTraffic | None = None
    """What a sparse model moves of its table; its layers have the rest."""

    @staticmethod
    def of(layers: Sequence[tuple[float, float, int]]) -> ComputeStep:
        """Make one of (seconds forward, seconds backward, bytes), in the order of computing."""
        return ComputeStep(
            layers=tuple(
                LayerCost(
                    forward_s=forward_s,
                    backward_s=backward_s,
                    parameters=(num_bytes,) if num_bytes else (),
                )
                for forward_s, backward_s, num_bytes in layers
            )
        )

    def scaled(self, factor: float) -> ComputeStep:
        """Give a step whose computing takes `factor` times as long."""
        return replace(self, layers=tuple(each.scaled(factor) for each in self.layers))

    def with_whole_table(self) -> ComputeStep:
        """Give the same with the table as one more parameter of the first layer."""
        if self.rows is None:
            return self
        first, *others = self.layers
        parameters = (self.rows.table_bytes, *first.parameters)
        layers = (replace(first, parameters=parameters), *others)
        return replace(self, layers=layers, rows=None)

    @cached_property
    def forward_s(self) -> float:
        return self.fixed_s + sum(each.forward_s for each in self.layers)

    @cached_property
    def compute_s(self) -> float:
        """Forward and backward, without the update."""
        return self.forward_s + sum(each.backward_s for each in self.layers)

    @cached_property
    def num_bytes(self) -> int:
        return sum(each.num_bytes for each in self.layers)

    @property
    def pushed_bytes(self) -> float:
        """What a worker sends in a step, where rows of a table move one by one."""
        return self.num_bytes + (self.rows.sent_bytes if self.rows else 0.0)

    @property
    def pulled_bytes(self) -> float:
        """What it receives: as many values as it has gradients for, without the names of rows."""
        return self.num_bytes + (self.rows.received_bytes if self.rows else 0.0)

    @cached_property
    def gradients(self) -> tuple[LayerGradient, ...]:
        """Every parameter's, in the order back-propagation finishes them."""
        passed_s = self.forward_s
        found: list[LayerGradient] = []
        for layer in reversed(self.layers):
            passed_s += layer.backward_s
            found += [
                LayerGradient(ready_s=passed_s, num_bytes=num_bytes)
                for num_bytes in reversed(layer.parameters)
            ]
        return tuple(found)


def even_step(step_s: float, model_bytes: int, factors: tuple[float, ...] = ()) -> ComputeStep:
    """Spread time and bytes evenly: what is left where nothing is known of a model's layers."""
    ends = [model_bytes * each // _LAYERS for each in range(_LAYERS + 1)]
    layer_s = step_s / _LAYERS
    return ComputeStep(
        layers=tuple(
            LayerCost(
                forward_s=(1 - _BACKWARD_SHARE) * layer_s,
                backward_s=_BACKWARD_SHARE * layer_s,
                parameters=(stop - start,),
            )
            for start, stop in pairwise(ends)
        ),
        factors=factors,
    )
