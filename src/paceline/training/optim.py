"""Optimizers, applied to any stretch, or any rows, of a parameter tensor.

A server updates a chunk as soon as that chunk's gradients are in, a worker updates everything
at once, a sparse step touches a few rows, and all must do the same arithmetic. So an optimizer
here is one function of (parameters, state, gradient, number of the update, learning rate), where
torch's own want whole tensors and count for themselves. The arithmetic is torch's: tests compare
the two.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, Self, final

from annotated_types import Ge, Lt

from paceline.catalogue import Catalogue, Entry
from paceline.description import Description, NotNegative, Positive
from paceline.errors import Problem
from paceline.training.schedules import Constant, Schedule
from paceline.training.state import State, Stateful, StateReader

if TYPE_CHECKING:
    from torch import Tensor

Fraction = Annotated[float, Ge(0), Lt(1)]

OPTIMIZERS = Catalogue(
    "optimizer",
    "paceline.training.optim:Optimizer",
    {
        "sgd": Entry("paceline.training.optim:Sgd"),
        "adam": Entry("paceline.training.optim:Adam"),
        "adamw": Entry("paceline.training.optim:AdamW"),
        "adagrad": Entry("paceline.training.optim:Adagrad"),
    },
    adapter="paceline.training.torch_optim:described",
)


class Optimizer(Description, ABC):
    """How a gradient changes parameters."""

    lr: Positive = 0.01
    lr_scaling: Literal["none", "linear"] = "none"
    """`linear` multiplies `lr` by the number of workers, whatever the strategy."""
    schedule: Schedule = Constant()
    weight_decay: NotNegative = 0.0

    def for_workers(self, num_workers: int) -> Self:
        """Give the optimizer that so many workers together use."""
        if self.lr_scaling == "none":
            return self
        return replace(self, lr=self.lr * num_workers, lr_scaling="none")

    def update_of(self, parameters: Tensor, places: Mapping[int, int]) -> Update:
        """Make what applies it to parameters, which are stretches of the whole vector.

        `places` has where each lies among them, by where it begins in the vector.
        """
        del places
        return Update(self, parameters)

    @property
    @abstractmethod
    def num_states(self) -> int:
        """How many numbers are remembered for each parameter."""

    @property
    def initial_states(self) -> tuple[float, ...]:
        """What they are before the first update."""
        return (0.0,) * self.num_states

    @property
    def fits_rows(self) -> bool:
        """Whether it can update a few rows of a table, some of them for the first time."""
        return True

    @property
    def only_adds(self) -> bool:
        """Whether an update is the gradient times a factor, added: then nothing is read first."""
        return False

    @abstractmethod
    def step(
        self, parameters: Tensor, states: Sequence[Tensor], gradient: Tensor, number: int, lr: float
    ) -> None:
        """Carry out update `number` (from 1 on) in place; `gradient` may be overwritten.

        `lr` is the learning rate of this update: the schedule is in it already.
        """


def learning_rate(optimizer: Optimizer) -> Callable[[int], float]:
    """Give the function from an update's number to its learning rate.

    Most runs have one learning rate: they do not compute it for every update.
    """
    lr, schedule = optimizer.lr, optimizer.schedule
    if schedule == Constant():
        return lambda _: lr
    return lambda number: lr * schedule.part(number)


@final
class Update(Stateful):
    """An optimizer and the state that goes with one parameter tensor, which it changes in place.

    The parameters are not part of its state: whoever made them saves them. Neither is the number
    of updates, nor the learning rate, which follows from it.
    """

    def __init__(self, optimizer: Optimizer, parameters: Tensor) -> None:
        self.optimizer = optimizer
        self.parameters = parameters
        # Most runs have one learning rate: they do not compute it for every update.
        self._only_lr = optimizer.lr if optimizer.schedule == Constant() else None
        self.states = [
            parameters.new_full(parameters.shape, each) for each in optimizer.initial_states
        ]

    def lr(self, number: int) -> float:
        """Give the learning rate of update `number`."""
        if self._only_lr is not None:
            return self._only_lr
        return self.optimizer.lr * self.optimizer.schedule.part(number)

    def apply(self, gradient: Tensor, number: int, start: int = 0) -> None:
        """Update the stretch that begins at `start` and is as long as `gradient`."""
        # Not len(): of a tensor it takes two microseconds, which is a tenth of a small push.
        if gradient.numel() == self.parameters.numel():
            self.optimizer.step(self.parameters, self.states, gradient, number, self.lr(number))
            return
        stretch = slice(start, start + gradient.numel())
        states = [state[stretch] for state in self.states]
        self.optimizer.step(self.parameters[stretch], states, gradient, number, self.lr(number))

    def state(self) -> State:
        slots = {f"slot{index}": values for index, values in enumerate(self.states)}
        return {"optimizer": self.optimizer.name, **slots}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.expect("optimizer", self.optimizer.name)
            for index, values in enumerate(self.states):
                fields.fill(f"slot{index}", values)


@final
class Sgd(Optimizer):
    """Stochastic gradient descent, plain or with momentum, Polyak's or Nesterov's."""

    momentum: Fraction = 0.0
    nesterov: bool = False

    def problems(self) -> Iterator[Problem]:
        if self.nesterov and not self.momentum:
            yield Problem("optimizer.nesterov", self.nesterov, "needs optimizer.momentum")

    @property
    def name(self) -> str:
        return "sgd"

    @property
    def num_states(self) -> int:
        return 1 if self.momentum else 0

    @property
    def only_adds(self) -> bool:
        return not self.weight_decay and not self.momentum

    def step(
        self, parameters: Tensor, states: Sequence[Tensor], gradient: Tensor, number: int, lr: float
    ) -> None:
        del number
        if self.weight_decay:
            gradient.add_(parameters, alpha=self.weight_decay)
        if self.momentum:
            velocity = states[0].mul_(self.momentum).add_(gradient)
            gradient = gradient.add_(velocity, alpha=self.momentum) if self.nesterov else velocity
        parameters.add_(gradient, alpha=-lr)


def _adam_step(
    adam: Adam | AdamW,
    parameters: Tensor,
    states: Sequence[Tensor],
    gradient: Tensor,
    *,
    number: int,
    lr: float,
) -> None:
    mean, square = states
    mean.lerp_(gradient, 1 - adam.beta1)
    square.mul_(adam.beta2).addcmul_(gradient, gradient, value=1 - adam.beta2)
    correction = math.sqrt(1 - adam.beta2**number)
    divisor = (square.sqrt() / correction).add_(adam.eps)
    parameters.addcdiv_(mean, divisor, value=-lr / (1 - adam.beta1**number))


@final
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015); weight decay is added to the gradient."""

    lr: Positive = 1e-3
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    eps: Positive = 1e-8

    @property
    def name(self) -> str:
        return "adam"

    @property
    def num_states(self) -> int:
        return 2

    def step(
        self, parameters: Tensor, states: Sequence[Tensor], gradient: Tensor, number: int, lr: float
    ) -> None:
        if self.weight_decay:
            gradient.add_(parameters, alpha=self.weight_decay)
        _adam_step(self, parameters, states, gradient, number=number, lr=lr)


@final
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""

    lr: Positive = 1e-3
    weight_decay: NotNegative = 0.01
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    eps: Positive = 1e-8

    @property
    def name(self) -> str:
        return "adamw"

    @property
    def num_states(self) -> int:
        return 2

    def step(
        self, parameters: Tensor, states: Sequence[Tensor], gradient: Tensor, number: int, lr: float
    ) -> None:
        parameters.mul_(1 - lr * self.weight_decay)
        _adam_step(self, parameters, states, gradient, number=number, lr=lr)


@final
class Adagrad(Optimizer):
    """Adagrad (Duchi, Hazan and Singer, 2011)."""

    eps: Positive = 1e-10

    @property
    def name(self) -> str:
        return "adagrad"

    @property
    def num_states(self) -> int:
        return 1

    def step(
        self, parameters: Tensor, states: Sequence[Tensor], gradient: Tensor, number: int, lr: float
    ) -> None:
        del number
        if self.weight_decay:
            gradient.add_(parameters, alpha=self.weight_decay)
        total = states[0].addcmul_(gradient, gradient, value=1)
        parameters.addcdiv_(gradient, total.sqrt().add_(self.eps), value=-lr)
