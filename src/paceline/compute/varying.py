"""How long each replayed step takes, over the typical one: a device's steps are not all alike.

Every worker goes through all factors in an order of its own before one comes again, so a few steps
vary as many would. Which factor a step has follows from the worker and the step's number alone: a
run that is repeated or resumed has the same ones.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, final

_MOST_ROUNDS: Final = 1_000_003


@final
class Varying:
    """The factors of one worker's steps."""

    def __init__(
        self, factors: Sequence[float] = (), *, slowness: float = 1.0, rank: int = 0
    ) -> None:
        self._deck = [slowness * each for each in factors] or [slowness]
        self._rank = rank
        self._round, self._shuffled = -1, self._deck

    def of(self, number: int) -> float:
        """Give the factor of a step by its number, from 0 on."""
        if len(self._deck) == 1:
            return self._deck[0]
        turn, place = divmod(number, len(self._deck))
        if turn != self._round:
            order = random.Random(_MOST_ROUNDS * self._rank + turn)  # noqa: S311 - no secret
            self._shuffled = order.sample(self._deck, len(self._deck))
            self._round = turn
        return self._shuffled[place]

    def total(self, num_steps: int) -> float:
        """Add up the factors of so many steps."""
        turns, left = divmod(num_steps, len(self._deck))
        first = num_steps - left
        return turns * sum(self._deck) + sum(self.of(first + each) for each in range(left))
