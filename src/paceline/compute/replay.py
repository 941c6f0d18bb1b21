"""Replayed compute: a step takes the time that a device would take, and leaves the CPU alone.

Gradients are real memory of the right size, and become ready layer by layer in the order of
back-propagation, so what is exchanged is real. Their values are made up: nothing is learnt.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import ClassVar, Final, final

import torch
from torch import Tensor, nn

from paceline.compute.awaiting import Await
from paceline.compute.base import Compute
from paceline.compute.rates import LayerTime
from paceline.compute.stand_in import StandIn
from paceline.compute.varying import Varying
from paceline.description import NotNegative
from paceline.errors import Problem, SpecError
from paceline.system.linux import wake_promptly
from paceline.training.optim import Optimizer
from paceline.training.replica import Replica
from paceline.training.state import State, StateReader, attributes

Ready = Callable[[nn.Parameter], None]

# A sleeper wakes a little late: the end of a step is awaited for this long without sleeping.
_AWAKE_NS: Final = 60_000
# A step is late if computing took this much longer than it should have, and a moment more, which
# is how exactly a busy machine wakes a sleeper.
_LATE_SHARE: Final = 0.05
_MOMENT_NS: Final = 1_000_000
_GRADIENT: Final = 1e-3


@final
class Replay(Compute):
    """Calls `ready`, if given, for each parameter when its layer's time has passed."""

    has_loss: ClassVar[bool] = False

    def __init__(
        self,
        replica: Replica,
        ready: Ready | None,
        times: Sequence[LayerTime],
        *,
        rank: int = 0,
        dilation: float = 1.0,
        wait: Await | None = None,
        note_ns: Callable[[int], None] = lambda _: None,
        varying: Varying | None = None,
    ) -> None:
        """`wait` waits for parameters that are still under way when a step begins.

        `note_ns` is told how long each step was held up by that. `varying` says how many times the
        typical time each step takes; by itself all are alike.
        """
        wake_promptly()
        self._ready = ready
        self._wait = wait
        self._note_ns = note_ns
        self._forward = _forward(replica, times, dilation)
        self._moments = _moments(replica, times, dilation)
        self._step_ns = self._moments[-1][0] if self._moments else 0
        self._varying = varying or Varying()
        self._factor = 1.0
        self._began_ns = 0
        self._through: nn.Module | None = None
        self._num_steps = 0
        self._num_late = 0
        # Written once, so that the memory is there. Each worker's own: averaging them is real.
        replica.gradients.fill_(_GRADIENT * (1 + rank))

    def through_autograd(self, wrap: Callable[[nn.Module], nn.Module]) -> None:
        """Have gradients become ready inside of torch's back-propagation, of a wrapped model."""
        trained = [each for _, parameters in self._moments for each in parameters]
        groups = [
            (partial(self._sleep, after_ns), parameters)
            for after_ns, parameters in self._moments
            if parameters
        ]
        self._through = wrap(StandIn(trained[::-1], groups))

    def gradients(self, batch: Sequence[Tensor]) -> float:
        del batch
        self._factor = self._varying.of(self._num_steps)
        self._began_ns = perf_counter_ns()
        if self._wait is not None:
            self._begin_late(self._wait)
        if self._through is not None:
            start = torch.zeros(1, requires_grad=True)
            self._through(start).backward()
            # What is exchanged in there is not the device's: whether it is late cannot be told.
            self._num_steps += 1
            return math.nan
        if self._ready is not None:
            self._tell(self._ready)
        step_ns = round(self._factor * self._step_ns)
        _wait_until(self._began_ns + step_ns)
        self._num_steps += 1
        late_ns = perf_counter_ns() - self._began_ns - step_ns
        self._num_late += late_ns > _LATE_SHARE * step_ns + _MOMENT_NS
        return math.nan

    def _begin_late(self, wait: Await) -> None:
        """Shift the step by what its layers, one after the other, wait for their parameters."""
        moment_ns, computed_ns = self._began_ns, 0
        for parameters, forward_ns in self._forward:
            if parameters:
                moment_ns = max(moment_ns, wait(parameters))
            takes_ns = round(self._factor * forward_ns)
            moment_ns += takes_ns
            computed_ns += takes_ns
        late_ns = moment_ns - computed_ns - self._began_ns
        self._note_ns(late_ns)
        self._began_ns += late_ns

    def accumulate(self, batch: Sequence[Tensor]) -> float:
        del batch
        factor = self._varying.of(self._num_steps)
        self._num_steps += 1
        _wait_until(perf_counter_ns() + round(factor * self._step_ns))
        return math.nan

    def _tell(self, ready: Ready) -> None:
        for after_ns, parameters in self._moments:
            self._sleep(after_ns)
            for parameter in parameters:
                ready(parameter)

    def _sleep(self, after_ns: int) -> None:
        _sleep_until(self._began_ns + round(self._factor * after_ns))

    def counted(self) -> dict[str, float | int | None]:
        return {
            "device_busy_s": self._varying.total(self._num_steps) * self._step_ns / 1e9,
            "late_steps": self._num_late if self._through is None else None,
        }

    def state(self) -> State:
        return attributes(self, "_num_steps", "_num_late")

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "_num_steps", "_num_late")


@final
class ReplayedUpdate(Optimizer):
    """An update that a device applies to its own parameters: takes its time, changes nothing."""

    update_s: NotNegative = 0.0

    @property
    def name(self) -> str:
        return "replayed"

    @property
    def num_states(self) -> int:
        return 0

    def step(
        self, parameters: Tensor, states: Sequence[Tensor], gradient: Tensor, number: int, lr: float
    ) -> None:
        del parameters, states, gradient, number, lr
        if self.update_s:
            _wait_until(perf_counter_ns() + round(1e9 * self.update_s))


def _moments(
    replica: Replica, times: Sequence[LayerTime], dilation: float
) -> list[tuple[int, list[nn.Parameter]]]:
    """Say how long after the start of a step which gradients are finished, first to last."""
    modules = dict(replica.model.named_modules())
    unknown = [each.layer for each in times if _module_name(each.layer) not in modules]
    if unknown:
        reason = f"the model has no such layers: {', '.join(unknown[:5])}"
        raise SpecError([Problem("device", "replay", f"{reason}; calibrate it again")])
    own = _own_parameters(replica, modules)
    passed_s = sum(each.forward_s for each in times)
    moments: list[tuple[int, list[nn.Parameter]]] = []
    for each in reversed(times):
        passed_s += each.backward_s
        moments.append((round(1e9 * dilation * passed_s), own[_module_name(each.layer)]))
    listed = {parameter for _, parameters in moments for parameter in parameters}
    # Layers that no file lists, as those whose parent computes for them: when all is computed.
    moments[-1][1].extend(each for each in reversed(replica.places) if each not in listed)
    return moments


def _forward(
    replica: Replica, times: Sequence[LayerTime], dilation: float
) -> list[tuple[list[nn.Parameter], int]]:
    """Say which parameters each layer needs, and how long its forward pass takes."""
    own = _own_parameters(replica, dict(replica.model.named_modules()))
    layers = [
        (own.get(_module_name(each.layer), []), round(1e9 * dilation * each.forward_s))
        for each in times
    ]
    listed = {parameter for parameters, _ in layers for parameter in parameters}
    # Those of layers that no file lists are taken to be needed at the end.
    return [*layers, ([each for each in replica.places if each not in listed], 0)]


def _own_parameters(
    replica: Replica, modules: dict[str, nn.Module]
) -> dict[str, list[nn.Parameter]]:
    """Name each module's own parameters, last first; one that is shared belongs to the first."""
    seen: Counter[nn.Parameter] = Counter()
    own: dict[str, list[nn.Parameter]] = {}
    for name, module in modules.items():
        mine = [each for each in module.parameters(recurse=False) if each in replica.places]
        own[name] = [each for each in reversed(mine) if not seen[each]]
        seen.update(mine)
    return own


def _module_name(layer: str) -> str:
    """Parameters of the model itself are listed as a layer under a name of their own."""
    return "" if layer == "(model)" else layer


def _sleep_until(moment_ns: int) -> None:
    left_ns = moment_ns - perf_counter_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)


def _wait_until(moment_ns: int) -> None:
    """Sleep, and be awake when the moment comes."""
    _sleep_until(moment_ns - _AWAKE_NS)
    while perf_counter_ns() < moment_ns:
        pass
