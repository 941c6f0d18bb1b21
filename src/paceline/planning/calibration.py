"""How long this machine takes for a workload's step, layer by layer: `paceline calibrate`.

A layer's forward time is from the end of the layer before it to its own end, so that what happens
between layers is counted too. Its backward time is from the moment the gradients of the layer
behind it were finished to the moment its own are: this is when they can leave.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from time import perf_counter, process_time
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from paceline.arithmetic.spread import relative
from paceline.compute.rates import LayerTime, Rates
from paceline.errors import DataError, Problem, SpecError
from paceline.measure.thread_usage import in_line_s
from paceline.spec import RunSpec
from paceline.training.answers import model_of
from paceline.training.optim import Update
from paceline.training.replica import Replica
from paceline.workloads.anatomy import Layer, examine

StepProgress = Callable[[int, int], None]
_WARM_UP: Final = 3
# A machine with nothing else to do lets threads run for more of the time than this.
_BUSY_SHARE: Final = 0.8
# More digits than a clock has are of no use to a reader.
_DIGITS: Final = 9


def calibrate(spec: RunSpec, repeat: int, progress: StepProgress) -> Rates:
    """Measure the workload of a spec; `progress` is told how many steps are done, of how many."""
    torch.manual_seed(spec.seed)
    torch.set_num_threads(spec.threads_each)
    layers = examine(spec.workload).layers
    num_rows = _num_rows(spec)
    batch = spec.batch if num_rows is None else spec.order_of(num_rows).batch
    if not isinstance(batch, int):
        reason = "the data is not here, so its number of rows is unknown"
        raise SpecError([Problem("batch", batch, reason)])
    replica = Replica(model_of(spec.workload), getattr(torch, spec.dtype))
    if replica.table is not None:
        reason = (
            "sparse models cannot be calibrated: the cost of a step depends on the "
            "rows a batch touches"
        )
        raise SpecError([Problem("workload", spec.workload.name, reason)])
    stopwatch = _Stopwatch(spec, replica, layers, batch)
    laps = []
    wall_s, ran_s, waited_s = perf_counter(), process_time(), _waited_s()
    for number in range(_WARM_UP + repeat):
        progress(number, _WARM_UP + repeat)
        laps.append(stopwatch.lap())
    measured = laps[_WARM_UP:]
    running = _running_share(
        perf_counter() - wall_s, process_time() - ran_s, max(0.0, _waited_s() - waited_s)
    )
    return Rates(
        batch=batch,
        layers=_typical(stopwatch.names, [lap.layers for lap in measured]),
        update_s=_rounded(statistics.median(lap.update_s for lap in measured)),
        step_factors=_factors(measured),
        num_rows=num_rows,
        fields=_fields(spec),
        note="" if running > _BUSY_SHARE else _disturbed(running),
    )


def _factors(laps: Sequence[_Lap]) -> tuple[float, ...]:
    """Give each step over their median; one alone says nothing about how they vary."""
    if len(laps) < 2:
        return ()
    return tuple(round(each, 4) for each in relative([lap.step_s for lap in laps]))


def _waited_s() -> float:
    """How long the threads of this process stood in line for a processor, all together."""
    return sum(in_line_s().values())


def _running_share(wall_s: float, ran_s: float, waited_s: float) -> float:
    """Which part of the time that threads could have run they did.

    One of several threads may have all of a core while the others wait for one: so what counts is
    also how long they stood in line, not only that somebody ran.
    """
    return min(ran_s / wall_s, ran_s / ((ran_s + waited_s) or 1.0))


def _disturbed(running: float) -> str:
    return (
        f"the machine was busy with other work during calibration: its threads ran for "
        f"{100 * running:.0f} % of the time that they could have"
    )


def _num_rows(spec: RunSpec) -> int | None:
    """Count the rows, where the data is here; measuring needs none of it."""
    try:
        return spec.num_rows()
    except DataError:
        return None


@final
class _Lap:
    """One step: seconds forward and backward of each layer, and of the update."""

    def __init__(self, num_layers: int) -> None:
        self.layers = [[0.0, 0.0] for _ in range(num_layers)]
        self.update_s = 0.0

    @property
    def step_s(self) -> float:
        return sum(map(sum, self.layers)) + self.update_s


@final
class _Stopwatch:
    """Steps through the model, and looks at the clock wherever a layer ends."""

    def __init__(
        self, spec: RunSpec, replica: Replica, layers: Sequence[Layer], batch: int
    ) -> None:
        assert spec.optimizer is not None
        computed = [layer.name for layer in layers if layer.output is not None]
        self.names = computed or [layer.name for layer in layers]
        self._loss = spec.workload.loss
        self._replica = replica
        self._batch = made_up(spec.workload.example(), batch, replica.parameters.dtype)
        self._update = Update(spec.optimizer, replica.parameters)
        self._forward_ends: dict[int, float] = {}
        self._backward_ends: dict[int, float] = {}
        self._num_laps = 0
        modules = dict(replica.model.named_modules())
        seen: set[nn.Parameter] = set()
        for index, name in enumerate(self.names):
            module = modules["" if name == "(model)" else name]
            module.register_forward_hook(self._forward_hook(index))
            for parameter in set(module.parameters(recurse=False)) - seen:
                seen.add(parameter)
                if parameter.requires_grad:
                    hook = self._backward_hook(index)
                    parameter.register_post_accumulate_grad_hook(hook)

    def _forward_hook(self, index: int) -> Callable[..., None]:
        def note(*_: object) -> None:
            self._forward_ends[index] = perf_counter()

        return note

    def _backward_hook(self, index: int) -> Callable[[Tensor], None]:
        def note(_: Tensor) -> None:
            self._backward_ends[index] = perf_counter()

        return note

    def lap(self) -> _Lap:
        """Make one step."""
        self._num_laps += 1
        self._forward_ends.clear()
        self._backward_ends.clear()
        lap = _Lap(len(self.names))
        began_s = perf_counter()
        self._replica.gradients.zero_()
        loss = self._loss(self._replica.model, self._batch)
        middle_s = perf_counter()
        loss.backward()  # type: ignore[no-untyped-call]
        loss.item()
        ended_s = perf_counter()
        _share_out(lap.layers, 0, self._forward_ends, began_s, middle_s)
        _share_out(lap.layers, 1, self._backward_ends, middle_s, ended_s)
        self._update.apply(self._replica.gradients, self._num_laps)
        lap.update_s = perf_counter() - ended_s
        return lap


def _share_out(
    layers: list[list[float]], column: int, ends: dict[int, float], from_s: float, to_s: float
) -> None:
    """Give each layer the time since the one before ended, and the last the rest."""
    last = 0
    for index, end_s in sorted(ends.items(), key=lambda each: each[1]):
        layers[index][column] += end_s - from_s
        from_s, last = end_s, index
    layers[last][column] += to_s - from_s


def _typical(names: Sequence[str], laps: Sequence[list[list[float]]]) -> tuple[LayerTime, ...]:
    """Take each layer's median, scaled so that they add up to the median of whole steps."""
    whole_s = statistics.median(sum(map(sum, lap)) for lap in laps)
    medians = [
        [statistics.median(lap[index][column] for lap in laps) for column in (0, 1)]
        for index in range(len(names))
    ]
    scale = whole_s / (sum(map(sum, medians)) or 1.0)
    return tuple(
        LayerTime(
            layer=name, forward_s=_rounded(scale * forward), backward_s=_rounded(scale * backward)
        )
        for name, (forward, backward) in zip(names, medians, strict=True)
    )


def _rounded(seconds: float) -> float:
    return round(seconds, _DIGITS)


def made_up(example: Sequence[Tensor], batch: int, dtype: torch.dtype) -> list[Tensor]:
    """Make a batch of the example's shape: real numbers at random, others as they are."""
    columns = [each.expand(batch, *each.shape[1:]) for each in example]
    return [
        torch.randn(each.shape, dtype=dtype) if each.is_floating_point() else each.clone()
        for each in columns
    ]


def _fields(spec: RunSpec) -> dict[str, Any]:
    """Name the workload's fields that differ from its own choice, but for where its data is."""
    own, plain = type(spec.workload), (bool, int, float, str)
    return {
        key: value
        for key, value in spec.workload.values().items()
        if isinstance(value, plain) and value != getattr(own, key, None)
    }


def file_table(device: str, workload: str, rates: Rates, source: str) -> dict[str, Any]:
    """Give what is written as TOML."""
    table: dict[str, Any] = {
        key: value
        for key, value in rates.values().items()
        if value not in (None, "", {}, ()) and value is not False
    }
    table["layers"] = [each.values() for each in rates.layers]
    return {"device": device, "source": source, "workloads": {workload: table}}
