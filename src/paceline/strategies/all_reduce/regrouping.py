"""Workers of a ring that meet again: they agree on the last complete step, and share its values.

Nobody can complete a step that another has not begun, so workers that were there before are at most
one step apart. Whoever is behind, or new, takes over the values of one that is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, final

from paceline.comm.allreduce.base import AllReduce

if TYPE_CHECKING:
    from torch import Tensor

_NONE: Final = -1


@final
class Standing(NamedTuple):
    """How far a worker is."""

    num_exchanged: int
    """Steps that it has completed with the others."""
    is_over: bool
    """Whether the last of them ends training."""

    def number(self) -> int:
        return 2 * self.num_exchanged + self.is_over

    @staticmethod
    def of(number: int) -> Standing:
        return Standing(number // 2, bool(number % 2))


def agree(all_reduce: AllReduce, own: Standing | None) -> tuple[Standing, int | None]:
    """Give the furthest standing, and who shares its values; None: all have them.

    `own` is None for a worker that has just come. Raises `ValueError` where nobody has any.
    """
    numbers = all_reduce.gather(_NONE if own is None else own.number())
    furthest = max(numbers)
    if furthest == _NONE:
        raise ValueError("no worker is left that has the parameters")
    return Standing.of(furthest), None if min(numbers) == furthest else numbers.index(furthest)


def share(all_reduce: AllReduce, source: int, values: Sequence[Tensor]) -> list[Tensor]:
    """Give everyone the values of one worker: to keep when all of them have come, not before.

    Should that worker be lost meanwhile, each still has its own.
    """
    import torch

    is_source = all_reduce.rank == source
    # To add -0.0 changes nothing; to add 0.0 would make 0.0 of each -0.0 of the source, and others
    # that keep what is their own have -0.0 there.
    shared = [each if is_source else torch.full_like(each, -0.0) for each in values]
    for each in shared:
        all_reduce.reduce(each)
    return shared
