"""Notices where a script changes parameters that servers keep: the next pull would undo that.

Values are compared with those that were pulled: in the first steps, then now and then.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Final, final

import torch
from torch import Tensor

from paceline.errors import LoopError

# Comparing values may take this part of the time, but for the first steps.
_SHARE: Final = 1 / 500
_FIRST: Final = 3


@final
class LostChanges:
    """What a worker's copy of its parameters was like when it was last pulled."""

    def __init__(self, named: Sequence[tuple[str, Tensor]]) -> None:
        """Each tensor is a vector that sees the memory of one parameter."""
        self._named = named
        self._before: list[int] | None = None
        self._num_looks = 0
        self._next_look_ns = 0

    def note(self) -> None:
        """Parameters are as servers have them; remember how, if it is time to."""
        began_ns = perf_counter_ns()
        if self._num_looks >= _FIRST and began_ns < self._next_look_ns:
            self._before = None
            return
        self._num_looks += 1
        self._before = self._sums()
        ended_ns = perf_counter_ns()
        self._next_look_ns = ended_ns + round(2 * (ended_ns - began_ns) / _SHARE)

    def forget(self) -> None:
        """Something else than the script changes them."""
        self._before = None

    def check(self) -> None:
        """Raises `LoopError` where the script changed one since; names it."""
        before, self._before = self._before, None
        if before is None:
            return
        for (name, _), then, now in zip(self._named, before, self._sums(), strict=True):
            if then != now:
                raise LoopError(_LOST.format(name))

    def _sums(self) -> list[int]:
        return [zlib.crc32(each.view(torch.uint8).numpy().data) for _, each in self._named]


_LOST: Final = (
    "parameter {!r} was changed by something else than optimizer.step(). Under this strategy "
    "servers keep the parameters, so such a change is lost: make it before paceline.wrap, or "
    "compute with a changed copy (clamp() for clamp_()), or use single, solo, ring or ddp, whose "
    "workers keep their own"
)
