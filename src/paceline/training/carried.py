"""Where a script's parameters lie in the vector that a strategy moves.

A script has modules, dtypes and parameter groups of its own. A strategy moves one vector of one
dtype. In front of each block of the vector is a header with what must be known of the parameters in
it: which of them have a gradient at all and, for a server, the numbers of their parameter groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, nn

from paceline.errors import Problem, SpecError

if TYPE_CHECKING:
    from torch.optim import Optimizer

Chunking = Callable[[int], Sequence[tuple[int, int]]]
"""Takes the length of a vector; says where its blocks begin and end."""


@final
@dataclass(frozen=True)
class CarriedPiece:
    """A stretch of one parameter, and where it lies."""

    parameter: int
    start: int
    stop: int
    at: int
    """Of the vector."""
    flag: int
    """Where the vector says whether it has a gradient."""

    @property
    def place(self) -> slice:
        return slice(self.at, self.at + self.stop - self.start)


@final
@dataclass
class Stretch:
    """A stretch of the vector: a header, then pieces of parameters."""

    start: int
    stop: int
    pieces: list[CarriedPiece] = field(default_factory=list)
    groups: dict[tuple[int, int], int] = field(default_factory=dict)
    """Where the numbers of each parameter group (optimizer, group) begin."""


@final
@dataclass(frozen=True)
class ScriptParameters:
    """What a script trains: its parameters, each once, and which group each belongs to."""

    parameters: list[nn.Parameter]
    groups: list[tuple[int, int] | None]
    """Optimizer and group of each parameter; None: no optimizer has it."""
    optimizers: Sequence[Optimizer] = ()

    @property
    def dtype(self) -> torch.dtype:
        """One that holds all of them, and that numpy knows."""
        is_double = any(each.dtype == torch.float64 for each in self.parameters)
        return torch.float64 if is_double else torch.float32

    @property
    def num_bytes(self) -> int:
        return sum(each.nbytes for each in self.parameters)


def trained_by(
    modules: Sequence[nn.Module], optimizers: Sequence[Optimizer], *, all_of_modules: bool
) -> ScriptParameters:
    """List what optimizers step, in their order; then what else of the modules needs gradients."""
    found: dict[nn.Parameter, tuple[int, int] | None] = {}
    for number, optimizer in enumerate(optimizers):
        for index, group in enumerate(optimizer.param_groups):
            for each in group["params"]:
                if each.requires_grad:
                    found.setdefault(each, (number, index))
    if all_of_modules:
        for module in modules:
            for each in module.parameters():
                if each.requires_grad:
                    found.setdefault(each, None)
    odd = [each.dtype for each in found if not each.is_floating_point()]
    if odd:
        raise SpecError([Problem("parameters", str(odd[0]), "only real numbers are exchanged")])
    return ScriptParameters([*found], [*found.values()], optimizers)


def lay_out(
    trained: ScriptParameters, cut: Chunking, numbers_of: Callable[[tuple[int, int]], int]
) -> list[Stretch]:
    """Lay parameters out in blocks, each with a header; `numbers_of` says how long a group's is."""
    total = sum(each.numel() for each in trained.parameters)
    length = total + 1
    while True:
        blocks = [Stretch(start, stop) for start, stop in cut(length)]
        left = _fill(blocks, trained, numbers_of)
        if not left:
            return blocks
        if len(blocks) > 1 and not any(block.pieces for block in blocks):
            reason = "too small for what goes along with each chunk of a script's parameters"
            raise SpecError([Problem("strategy.chunk_bytes", blocks[0].stop, reason)])
        length += left


def _fill(
    blocks: list[Stretch], trained: ScriptParameters, numbers_of: Callable[[tuple[int, int]], int]
) -> int:
    """Fill blocks in order; gives how many values found no room, headers included."""
    waiting = [(index, 0) for index in reversed(range(len(trained.parameters)))]
    for block in blocks:
        _fill_one(block, waiting, trained, numbers_of)
    left = sum(trained.parameters[index].numel() - start for index, start in waiting)
    return left + 8 * len(waiting)


def _fill_one(
    block: Stretch,
    waiting: list[tuple[int, int]],
    trained: ScriptParameters,
    numbers_of: Callable[[tuple[int, int]], int],
) -> None:
    """Take as many of those that wait as there is room for; their header comes first."""
    taken: list[tuple[int, int, int]] = []
    room = block.stop - block.start
    groups: dict[tuple[int, int], int] = {}
    while waiting:
        index, start = waiting[-1]
        group, count = trained.groups[index], trained.parameters[index].numel()
        header = 1 + (numbers_of(group) if group is not None and group not in groups else 0)
        if room <= header and count:
            break
        if group is not None:
            groups.setdefault(group, 0)
        stop = min(count, start + room - header)
        room -= header + stop - start
        taken.append((index, start, stop))
        waiting.pop()
        if stop < count:
            waiting.append((index, stop))
            break
    _place(block, taken, groups, numbers_of)


def _place(
    block: Stretch,
    taken: Sequence[tuple[int, int, int]],
    groups: dict[tuple[int, int], int],
    numbers_of: Callable[[tuple[int, int]], int],
) -> None:
    at = block.start + len(taken)
    for group in groups:
        block.groups[group] = at
        at += numbers_of(group)
    for number, (index, start, stop) in enumerate(taken):
        block.pieces.append(CarriedPiece(index, start, stop, at, block.start + number))
        at += stop - start


@final
class Carrier(nn.Module):
    """What a strategy sees in a model's place: stretches of one vector."""

    def __init__(self, lengths: Sequence[int], dtype: torch.dtype) -> None:
        super().__init__()
        self.stretches = nn.ParameterList(
            [nn.Parameter(torch.zeros(length, dtype=dtype)) for length in lengths]
        )


def as_laid(vector: Tensor, piece: CarriedPiece, like: Tensor) -> Tensor:
    """See a whole parameter's place in the vector in the parameter's own shape and strides."""
    layout: Any = (like.shape, torch.empty_like(like, device="meta").stride())
    return vector[piece.place].as_strided(*layout)
