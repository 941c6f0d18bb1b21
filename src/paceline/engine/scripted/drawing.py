"""Random numbers that all workers draw alike, beside those that each draws for itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, final

import torch
from torch import Tensor
from torch.utils.data import (
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

# Of these all random numbers of an epoch are drawn with its first index.
_DRAW_AT_ONCE: Final = (
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


@final
class SharedDraws:
    """The random numbers that all workers draw alike: those of samplers."""

    def __init__(self, state: Tensor) -> None:
        self._state = state
        self._depth = 0

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._own = torch.get_rng_state()
            torch.set_rng_state(self._state)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._state = torch.get_rng_state()
            torch.set_rng_state(self._own)

    def drawn(self, source: Iterable[Any], at_a_time: int) -> Iterator[Any]:
        """Yield what there is, drawn from here so many at a time."""
        with self:
            rest = iter(source)
            waiting = [*islice(rest, at_a_time)]
        if type(source) in _DRAW_AT_ONCE:
            yield from waiting
            yield from rest
            return
        while waiting:
            yield from waiting
            with self:
                waiting = [*islice(rest, at_a_time)]


# Far apart, so that no process of one worker's loader has the seed of another worker's; torch looks
# at 32 bits of a seed.
_APART: Final = 0x9E3779B1


@final
@dataclass(frozen=True)
class OwnDraws:
    """Has the processes of a loader draw other numbers than those of other workers' loaders.

    Their seeds come from the random numbers that all workers draw alike.
    """

    rank: int
    given: Callable[[int], None] | None
    """What the script has each process do when it begins."""

    def __call__(self, number: int) -> None:
        import numpy as np

        seed = (torch.initial_seed() + self.rank * _APART) % 2**63
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed([seed % 2**32, seed >> 32])  # noqa: NPY002 - what a script may use
        if self.given is not None:
            self.given(number)
