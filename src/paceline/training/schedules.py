"""Learning rates that change with the number of the update.

A schedule says what part of the optimizer's `lr` an update uses, from nothing but the update's
number: whoever applies update 500, one worker or each of several servers, uses the same. The
boundaries are those of torch's schedulers, whose steps count from 0: tests compare the two.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Annotated, final

from annotated_types import Ge, Gt, Le, Lt

from paceline.catalogue import Catalogue, Entry
from paceline.description import Count, Description, NotNegativeInt
from paceline.errors import Problem

SCHEDULES = Catalogue(
    "optimizer.schedule",
    "paceline.training.schedules:Schedule",
    {
        "constant": Entry("paceline.training.schedules:Constant"),
        "step": Entry("paceline.training.schedules:Step"),
        "cosine": Entry("paceline.training.schedules:Cosine"),
    },
)


class Schedule(Description, ABC):
    """How the learning rate changes as updates are made."""

    warmup_steps: NotNegativeInt = 0
    """Over how many updates the learning rate rises, in equal steps, to what it is to be."""

    def part(self, number: int) -> float:
        """Say what update `number`, from 1 on, multiplies `lr` by."""
        decayed = self.decay(number)
        if number < self.warmup_steps:
            return decayed * number / self.warmup_steps
        return decayed

    @abstractmethod
    def decay(self, number: int) -> float:
        """Say the same, warm-up left aside."""


@final
class Constant(Schedule):
    """The same learning rate throughout."""

    @property
    def name(self) -> str:
        return "constant"

    def decay(self, number: int) -> float:
        del number
        return 1.0


@final
class Step(Schedule):
    """The learning rate drops by a factor, again and again, or at the steps that are listed."""

    every_steps: Count | None = None
    at_steps: tuple[Count, ...] = ()
    factor: Annotated[float, Gt(0), Lt(1)] = 0.1

    def problems(self) -> Iterator[Problem]:
        reason = "one of every_steps and at_steps says when the learning rate drops"
        if self.every_steps is None and not self.at_steps:
            yield Problem("optimizer.schedule.every_steps", None, reason)
        elif self.every_steps is not None and self.at_steps:
            yield Problem("optimizer.schedule.at_steps", self.at_steps, reason)

    @property
    def name(self) -> str:
        return "step"

    def decay(self, number: int) -> float:
        if self.every_steps is not None:
            return self.factor ** ((number - 1) // self.every_steps)
        return self.factor ** sum(number > each for each in self.at_steps)


@final
class Cosine(Schedule):
    """The learning rate falls along half a cosine, from the warm-up's end to `end_step`."""

    end_step: Count
    end_factor: Annotated[float, Ge(0), Le(1)] = 0.0
    """What part of `lr` is left at the end, and stays."""

    def problems(self) -> Iterator[Problem]:
        if self.end_step <= self.warmup_steps:
            reason = f"not after the {self.warmup_steps} steps of warm-up"
            yield Problem("optimizer.schedule.end_step", self.end_step, reason)

    @property
    def name(self) -> str:
        return "cosine"

    def decay(self, number: int) -> float:
        done = (number - 1 - self.warmup_steps) / (self.end_step - self.warmup_steps)
        swing = (1 + math.cos(math.pi * min(1.0, max(0.0, done)))) / 2
        return self.end_factor + (1 - self.end_factor) * swing
