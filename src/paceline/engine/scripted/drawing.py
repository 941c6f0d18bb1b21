"""Random numbers that all workers draw alike, beside those that each draws for itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
