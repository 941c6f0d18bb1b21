"""torch's optimizers on slices of parameters, as servers keep them.

An optimizer is elementwise where what becomes of a value depends on that value's own gradients
alone: then a slice of a parameter can be updated without the rest. Servers hold the same class with
the same groups; the numbers of a group, learning rate first, come with every push.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final, cast, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer as TorchOptimizer

from paceline.errors import Problem, SpecError
from paceline.training.carried import CarriedPiece, ScriptParameters, Stretch
from paceline.training.optim import Optimizer, Update
from paceline.training.state import State, StateReader

if TYPE_CHECKING:
    import numpy.typing as npt

ELEMENTWISE: Final = (
    "ASGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
)
_WHY_NOT: Final[Mapping[str, str]] = {
    "Adafactor": "it keeps row and column means of whole matrices",
    "LBFGS": "it searches along a direction made of all gradients together",
    "Muon": "it makes the update of a whole matrix orthogonal",
    "SparseAdam": "it takes sparse gradients only",
}

# Only where nothing is exchanged.
_ALONE_ONLY: Final = (torch.optim.LBFGS, torch.optim.SparseAdam)
_ALONE: Final = ("single", "solo")

_UNKNOWN: Final = (
    "nothing says that it is elementwise; a class of your own that is says so: elementwise = True"
)


def why_not_elementwise(cls: type[TorchOptimizer]) -> str | None:
    """Say why servers cannot hold an optimizer in slices; None: they can."""
    if getattr(cls, "elementwise", False):
        return None
    if cls.__module__.startswith("torch.optim.") and cls.__name__ in ELEMENTWISE:
        return None
    return _WHY_NOT.get(cls.__name__, _UNKNOWN)


def strategies_for(cls: type[TorchOptimizer]) -> tuple[str, ...]:
    """Name the strategies under which a script may use an optimizer that servers cannot hold."""
    return _ALONE if issubclass(cls, _ALONE_ONLY) else (*_ALONE, "ring", "ddp")


def check_averaged(optimizers: Sequence[TorchOptimizer], strategy: str, num_workers: int) -> None:
    """Refuse what does not step alike in all workers from averaged gradients."""
    for each in optimizers:
        # One worker's loss is the average.
        if isinstance(each, torch.optim.LBFGS) and num_workers > 1:
            why = (
                "its search looks at the loss of each worker's own rows, which is not averaged as "
                "gradients are, so workers would step differently"
            )
        elif isinstance(each, torch.optim.SparseAdam):
            why = "it takes sparse gradients only, and dense ones are exchanged"
        else:
            continue
        reason = f"{type(each).__name__} cannot be used: {why}"
        raise SpecError([Problem("strategy", strategy, reason, strategies_for(type(each)))])


def check_elementwise(optimizers: Sequence[TorchOptimizer], strategy: str) -> None:
    """Refuse what servers cannot apply, and name the strategies that can."""
    problems = [
        Problem(
            "strategy",
            strategy,
            f"{type(each).__name__} cannot be applied by servers, each of which has slices of "
            f"parameters: {why}",
            strategies_for(type(each)),
        )
        for each in optimizers
        if (why := why_not_elementwise(type(each))) is not None
    ]
    if problems:
        raise SpecError(problems)


def numbers_in(optimizer: TorchOptimizer, group: int) -> list[tuple[str, int | None]]:
    """Name the numbers of a group that a scheduler may change: a key, and its place in a tuple."""
    values = optimizer.param_groups[group]
    return [*_numbers(values, optimizer.defaults)]


def _numbers(
    values: Mapping[str, Any], known: Mapping[str, Any]
) -> Iterator[tuple[str, int | None]]:
    for key in known:
        value = values.get(key)
        if _is_number(value):
            yield key, None
        elif isinstance(value, tuple) and all(map(_is_number, value)):
            yield from ((key, index) for index in range(len(value)))


def _is_number(value: object) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and value.is_floating_point()
    return isinstance(value, int | float) and not isinstance(value, bool)


@final
class Numbers:
    """The numbers of all groups, as they lie in a header: each as two values that add up to it."""

    def __init__(self, optimizers: Sequence[TorchOptimizer]) -> None:
        self._optimizers = optimizers
        self._named = {
            (number, index): numbers_in(each, index)
            for number, each in enumerate(optimizers)
            for index in range(len(each.param_groups))
        }

    def count(self, group: tuple[int, int]) -> int:
        """How many values a group has in a header."""
        return 2 * len(self._named[group])

    def write(self, group: tuple[int, int], header: npt.NDArray[Any], at: int) -> None:
        """Lay the numbers of a group out as they are now."""
        values = self._optimizers[group[0]].param_groups[group[1]]
        for place, (key, index) in enumerate(self._named[group]):
            number = float(values[key] if index is None else values[key][index])
            header[at + 2 * place] = number
            header[at + 2 * place + 1] = number - float(header[at + 2 * place])

    def read(
        self, group: tuple[int, int], header: npt.NDArray[Any], at: int, into: dict[str, Any]
    ) -> None:
        """Set the numbers of a group to what a header says."""
        for place, (key, index) in enumerate(self._named[group]):
            number = float(header[at + 2 * place]) + float(header[at + 2 * place + 1])
            if index is None:
                into[key] = type(into[key])(number) if isinstance(into[key], int) else number
            else:
                held = list(into[key])
                held[index] = number
                into[key] = tuple(held)


@final
class OwnOptimizer(Optimizer):
    """A script's own optimizer: workers step it themselves, or servers hold it in slices."""

    held: Any = None
    """`Slices`; None: nothing is applied but by the script."""

    @property
    def name(self) -> str:
        return "script"

    @property
    def num_states(self) -> int:
        return 0

    def update_of(self, parameters: Tensor, places: Mapping[int, int]) -> Update:
        if self.held is None:
            return Update(self, parameters)
        return cast("Update", SlicedUpdate(self.held, parameters, places))

    def step(
        self, parameters: Tensor, states: Sequence[Tensor], gradient: Tensor, number: int, lr: float
    ) -> None:
        del parameters, states, gradient, number, lr


@final
class Slices:
    """What a server must know of a script: its optimizers, and how parameters lie in the vector."""

    def __init__(
        self, trained: ScriptParameters, blocks: Sequence[Stretch], numbers: Numbers
    ) -> None:
        self.trained = trained
        self.blocks = blocks
        self.numbers = numbers


@final
class SlicedUpdate:
    """Applies pushes of a script to a server's part of the vector, block by block."""

    def __init__(self, slices: Slices, parameters: Tensor, places: Mapping[int, int]) -> None:
        self.parameters = parameters
        self._blocks = {
            places[block.start]: _HeldBlock(
                slices, block, parameters, block.start - places[block.start]
            )
            for block in slices.blocks
            if block.start in places
        }

    def apply(self, gradient: Tensor, number: int, start: int = 0) -> None:
        """Update the block that begins at `start`."""
        del number
        if gradient.numel():
            self._blocks[start].apply(gradient)

    def state(self) -> State:
        return {str(start): block.state() for start, block in self._blocks.items()}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            for start, block in self._blocks.items():
                block.load(fields.table(str(start)))


@final
class _HeldBlock:
    """One block: a torch optimizer for each of the script's that has parameters in it."""

    def __init__(self, slices: Slices, block: Stretch, parameters: Tensor, first: int) -> None:
        self._numbers = slices.numbers
        self._block = block
        self._slices = [
            nn.Parameter(parameters[each.at - first : each.place.stop - first])
            for each in block.pieces
        ]
        self._optimizers: dict[int, TorchOptimizer] = {}
        self._groups: dict[tuple[int, int], dict[str, Any]] = {}
        for group in block.groups:
            self._hold(slices, group)
        self._take_over(slices.trained)

    def _take_over(self, trained: ScriptParameters) -> None:
        """Go on from what the script's optimizers remember already, as after `load_state_dict`."""
        for piece, own in zip(self._block.pieces, self._slices, strict=True):
            parameter, group = trained.parameters[piece.parameter], trained.groups[piece.parameter]
            if group is None:
                continue
            state = self._optimizers[group[0]].state
            for key, value in trained.optimizers[group[0]].state.get(parameter, {}).items():
                state[own][key] = _slice_of(value, parameter, piece, own.dtype)

    def _hold(self, slices: Slices, group: tuple[int, int]) -> None:
        """Make the same group of the same class, of this block's slices."""
        theirs = slices.trained.optimizers[group[0]]
        options = {k: v for k, v in theirs.param_groups[group[1]].items() if k in theirs.defaults}
        mine: dict[str, Any] = {"params": self._of(slices, group), **options}
        if group[0] not in self._optimizers:
            self._optimizers[group[0]] = _another(theirs, [mine])
        else:
            self._optimizers[group[0]].add_param_group(mine)
        self._groups[group] = self._optimizers[group[0]].param_groups[-1]

    def _of(self, slices: Slices, group: tuple[int, int]) -> list[nn.Parameter]:
        pairs = zip(self._block.pieces, self._slices, strict=True)
        return [own for piece, own in pairs if slices.trained.groups[piece.parameter] == group]

    def apply(self, gradient: Tensor) -> None:
        header, start = gradient.numpy(), self._block.start
        for group, at in self._block.groups.items():
            self._numbers.read(group, header, at - start, self._groups[group])
        for piece, own in zip(self._block.pieces, self._slices, strict=True):
            own.grad = self._gradient(gradient, piece) if header[piece.flag - start] > 0 else None
        with torch.no_grad():
            for optimizer in self._optimizers.values():
                optimizer.step()

    def _gradient(self, gradient: Tensor, piece: CarriedPiece) -> Tensor:
        start = self._block.start
        return gradient[piece.at - start : piece.place.stop - start]

    def state(self) -> State:
        """Give what the optimizers remember, by optimizer, slice and name."""
        found: dict[str, Any] = {}
        for number, optimizer in self._optimizers.items():
            for index, own in enumerate(self._slices):
                for key, value in optimizer.state.get(own, {}).items():
                    found[f"{number}.{index}.{key}"] = value
        return found

    def load(self, state: State) -> None:
        for name, value in state.items():
            number, index, key = name.split(".", 2)
            optimizer, own = self._optimizers[int(number)], self._slices[int(index)]
            optimizer.state[own][key] = value.clone() if isinstance(value, Tensor) else value


def _slice_of(value: Any, parameter: Tensor, piece: CarriedPiece, dtype: torch.dtype) -> Any:
    """Give a slice's part of what is remembered of a parameter: of each value, or as a whole."""
    if not isinstance(value, Tensor):
        return copy(value)
    if not value.dim() or value.shape != parameter.shape:
        return value.clone()
    laid = torch.empty_like(parameter.detach(), dtype=dtype).copy_(value)
    return laid.as_strided((laid.numel(),), (1,))[piece.start : piece.stop].clone()


def _another(optimizer: TorchOptimizer, groups: list[dict[str, Any]]) -> TorchOptimizer:
    """Make one more of the same class; what its groups say is all that it is asked for."""
    defaults = {k: v for k, v in optimizer.defaults.items() if k in _arguments(type(optimizer))}
    return type(optimizer)(groups, **defaults)


def _arguments(cls: type[TorchOptimizer]) -> set[str]:
    import inspect

    return {*inspect.signature(cls.__init__).parameters}
