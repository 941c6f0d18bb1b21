"""A worker's step as the arithmetic takes it: from rates, from figures alone, or from a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from paceline.arithmetic.step import ComputeStep, LayerCost, even_step

if TYPE_CHECKING:
    from torch import nn

    from paceline.compute.rates import LayerTime, Rates
    from paceline.planning.scenario import Scenario
    from paceline.spec import RunSpec

_FLOAT_BYTES: Final = 4


def step_of(spec: RunSpec, rates: Rates, batch: int) -> ComputeStep:
    """Take a workload's step apart: how long each layer takes, and what it has to exchange."""
    from paceline.workloads.anatomy import examine, undrawn_model

    layers = examine(spec.workload).layers
    times = rates.layer_times([(each.name, each.multiply_adds) for each in layers], batch)
    item_bytes = 8 if spec.dtype == "float64" else _FLOAT_BYTES
    return ComputeStep(
        layers=_costs(times, undrawn_model(spec.workload), item_bytes),
        update_s=rates.update_s,
        factors=rates.step_factors,
    )


def _costs(times: Sequence[LayerTime], model: nn.Module, item_bytes: int) -> tuple[LayerCost, ...]:
    """Give each layer its own parameters; those of layers that are not timed go to the first."""
    own = _own_bytes(model, item_bytes)
    names = ["" if each.layer == "(model)" else each.layer for each in times]
    left = [size for name, sizes in own.items() if name not in names for size in sizes]
    return tuple(
        LayerCost(
            forward_s=each.forward_s,
            backward_s=each.backward_s,
            parameters=(*own.get(name, ()), *(left if index == 0 else ())),
        )
        for index, (name, each) in enumerate(zip(names, times, strict=True))
    )


def _own_bytes(model: nn.Module, item_bytes: int) -> Mapping[str, list[int]]:
    """Name each module's own parameters; one that is shared belongs to the first."""
    seen: set[nn.Parameter] = set()
    found: dict[str, list[int]] = {}
    for name, module in model.named_modules():
        mine = [each for each in module.parameters(recurse=False) if each not in seen]
        seen.update(mine)
        found[name] = [item_bytes * each.numel() for each in mine if each.requires_grad]
    return found


def step_by_figures(scenario: Scenario) -> ComputeStep:
    """Make a step of a model that is known by its figures only."""
    assert scenario.batch is not None
    if scenario.layers:
        return ComputeStep(
            layers=tuple(
                LayerCost(
                    forward_s=each.forward_s,
                    backward_s=each.backward_s,
                    parameters=(each.bytes,) if each.bytes else (),
                )
                for each in scenario.layers
            ),
            factors=scenario.step_factors,
        )
    assert scenario.rows_per_s is not None
    assert scenario.model_bytes is not None
    return even_step(
        scenario.batch / scenario.rows_per_s, scenario.model_bytes, scenario.step_factors
    )


def rates_of(spec: RunSpec, step: ComputeStep, batch: int) -> Rates:
    """Write a step down as the rates of a device, so that it can be replayed."""
    from paceline.compute.rates import LayerTime, Rates
    from paceline.workloads.anatomy import examine

    names = [layer.name for layer in examine(spec.workload).layers if layer.output is not None]
    assert len(names) >= len(step.layers), "layers are those of the workload"
    return Rates(
        batch=batch,
        layers=tuple(
            LayerTime(layer=name, forward_s=each.forward_s, backward_s=each.backward_s)
            for name, each in zip(names, step.layers, strict=False)
        ),
        update_s=step.update_s,
        num_rows=1_000_000,
    )
