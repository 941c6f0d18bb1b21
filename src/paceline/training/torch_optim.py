"""torch's optimizers as descriptions: `torch.optim:RMSprop`, wherever ours are accepted.

The fields are the options of the class. An update is the class's own, of a parameter that is the
stretch, or the rows, given; what it remembers lies with its caller, as of every optimizer here.
"""

from __future__ import annotations

import inspect
import threading
import types
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer as Torchs

from paceline.description import Description, NotNegative, Positive, user_name
from paceline.errors import Problem, SpecError
from paceline.training.optim import Optimizer
from paceline.training.sliced import strategies_for, why_not_elementwise

# How torch computes, not what: an update is one parameter's, so that there is nothing to choose.
_HOW: Final = {"self", "params", "foreach", "fused", "capturable", "differentiable"}
_KNOWN: Final = {"lr": Positive, "weight_decay": NotNegative}
# What a class that counts its updates calls that; the number is known here.
_COUNT: Final = "step"


class TorchOptimizer(Optimizer):
    """A class of torch's, or of a user's own that is one of torch's kind."""

    @staticmethod
    @abstractmethod
    def torchs() -> type[Torchs]:
        """Give the class."""

    @property
    def name(self) -> str:
        cls = self.torchs()
        is_torchs = cls.__module__.startswith("torch.optim.")
        return f"torch.optim:{cls.__name__}" if is_torchs else user_name(cls)

    def problems(self) -> Iterator[Problem]:
        cls = self.torchs()
        why = why_not_elementwise(cls)
        if why is not None:
            reason = (
                f"{cls.__name__} cannot update stretches of parameters: {why}. In a script of your "
                "own, with paceline.wrap, it can be used under these strategies"
            )
            yield Problem("optimizer", self.name, reason, strategies_for(cls))
            return
        if self.weight_decay and "weight_decay" not in _arguments(cls):
            yield Problem("optimizer.weight_decay", self.weight_decay, "it has no weight decay")
        try:
            self.made([nn.Parameter(torch.zeros(1))])
        except (TypeError, ValueError, RuntimeError) as error:
            yield Problem("optimizer", self.name, str(error))

    def made(self, parameters: list[nn.Parameter]) -> Torchs:
        """Make one of the class, with these options."""
        cls = self.torchs()
        options: dict[str, Any] = {
            key: value for key, value in self.values().items() if key in _arguments(cls)
        }
        if "foreach" in inspect.signature(cls.__init__).parameters:
            options["foreach"] = False
        made: Any = cls
        return cast("Torchs", made(parameters, **options))

    @property
    def num_states(self) -> int:
        return len(_layout(self).names)

    @property
    def initial_states(self) -> tuple[float, ...]:
        return _layout(self).initial

    @property
    def fits_rows(self) -> bool:
        return _layout(self).fits_rows

    def step(
        self, parameters: Tensor, states: Sequence[Tensor], gradient: Tensor, number: int, lr: float
    ) -> None:
        _held(self).step(parameters, states, gradient, number, lr)


@final
@dataclass(frozen=True)
class _Layout:
    """What a class remembers for each parameter."""

    names: tuple[str, ...]
    scalars: Mapping[str, torch.dtype]
    """Those that are one number for a whole parameter; here each value has it."""
    initial: tuple[float, ...]
    count: Tensor | float | None
    """Of what kind its number of updates is; None: it has none."""

    @property
    def fits_rows(self) -> bool:
        """Whether a row can be first touched by any update: all then begins with zeros."""
        return not self.scalars and not any(self.initial)

    def given(self, states: Sequence[Tensor], number: int) -> dict[str, Any]:
        """Give what a class remembers before update `number`."""
        found: dict[str, Any] = {
            name: _first(values, self.scalars[name]) if name in self.scalars else values
            for name, values in zip(self.names, states, strict=True)
        }
        if isinstance(self.count, Tensor):
            found[_COUNT] = torch.full_like(self.count, number - 1)
        elif self.count is not None:
            found[_COUNT] = number - 1
        return found

    def keep(self, found: dict[str, Any], states: Sequence[Tensor]) -> None:
        """Take what a class remembers now; most of it was changed in its place."""
        for name, values in zip(self.names, states, strict=True):
            now = found[name]
            if name in self.scalars:
                values.fill_(float(now))
            elif now is not values:
                values.copy_(now)


def _first(values: Tensor, dtype: torch.dtype) -> Tensor:
    return values.reshape(-1)[0].to(dtype, copy=True)


@cache
def _layout(optimizer: TorchOptimizer) -> _Layout:
    """See what is remembered after an update that changes nothing."""
    own = nn.Parameter(torch.zeros(3))
    own.grad = torch.zeros(3)
    made = optimizer.made([own])
    made.step()
    found = {key: value for key, value in made.state[own].items() if value is not None}
    count = found.pop(_COUNT, None)
    scalars = {
        key: torch.as_tensor(value).dtype
        for key, value in found.items()
        if getattr(value, "shape", ()) != own.shape
    }
    initial = (0.0 if key in scalars else float(found[key][0]) for key in found)
    return _Layout(tuple(found), scalars, tuple(initial), count)


@final
class _Held:
    """One of the class, whose only parameter is whatever is updated."""

    def __init__(self, optimizer: TorchOptimizer) -> None:
        self._own = nn.Parameter(torch.zeros(0))
        self._made = optimizer.made([self._own])
        self._layout = _layout(optimizer)

    def step(
        self, parameters: Tensor, states: Sequence[Tensor], gradient: Tensor, number: int, lr: float
    ) -> None:
        if not parameters.numel():
            return
        own, made = self._own, self._made
        own.data = parameters
        own.grad = gradient
        made.param_groups[0]["lr"] = lr
        # What the first update finds is the class's own affair.
        made.state[own] = {} if number == 1 else self._layout.given(states, number)
        made.step()
        self._layout.keep(made.state[own], states)
        own.grad = None
        own.data = _NOTHING
        made.state.clear()


@final
class _OfThread(threading.local):
    """Those of one thread: seats may be threads of one process."""

    def __init__(self) -> None:
        self.held: dict[TorchOptimizer, _Held] = {}


_NOTHING: Final = torch.zeros(0)
_OWN: Final = _OfThread()


def _held(optimizer: TorchOptimizer) -> _Held:
    held = _OWN.held.get(optimizer)
    if held is None:
        held = _OWN.held[optimizer] = _Held(optimizer)
    return held


def described(loaded: object) -> object:
    """Give the description for a class of torch's kind; anything else as it is."""
    if isinstance(loaded, type) and issubclass(loaded, Torchs):
        return _description(loaded)
    return loaded


def description_of(optimizer: object) -> object:
    """Describe a torch optimizer, or its class; anything else is given back as it is."""
    if not isinstance(optimizer, Torchs):
        made = described(optimizer)
        return made() if made is not optimizer and callable(made) else optimizer
    cls = _description(type(optimizer))
    tables = [_options(group, type(optimizer)) for group in optimizer.param_groups]
    if any(each != tables[0] for each in tables):
        reason = "parameter groups with different options; a script with paceline.wrap keeps them"
        raise SpecError([Problem("optimizer", type(optimizer).__name__, reason)])
    return cast("Any", cls)(**tables[0])


def _options(group: dict[str, Any], cls: type[Torchs]) -> dict[str, Any]:
    return {
        key: float(group[key]) if isinstance(group[key], Tensor) else group[key]
        for key in _arguments(cls)
        if key in group
    }


_DESCRIBED: Final[dict[type[Torchs], type[Description]]] = {}


def _description(cls: type[Torchs]) -> type[Description]:
    """Give the class of descriptions for a class of torch's kind, always the same one."""
    if cls not in _DESCRIBED:
        _DESCRIBED[cls] = _made_for(cls)
    return _DESCRIBED[cls]


def _made_for(cls: type[Torchs]) -> type[Description]:
    """Make a class whose fields are the options of a class of torch's kind."""

    def fill(space: dict[str, Any]) -> None:
        space["__module__"], space["__doc__"] = __name__, f"torch's {cls.__name__}."
        space["torchs"] = staticmethod(lambda: cls)
        kinds = {key: _KNOWN.get(key, _kind(each)) for key, each in _arguments(cls).items()}
        space["__annotations__"] = kinds
        for key, default in _arguments(cls).items():
            if default is not inspect.Parameter.empty:
                space[key] = float(default) if kinds[key] is float else default

    made: Any = types.new_class(cls.__name__, (TorchOptimizer,), exec_body=fill)
    return cast("type[Description]", made)


def _arguments(cls: type[Torchs]) -> dict[str, Any]:
    """Give a class's options and their defaults."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        key: each.default
        for key, each in inspect.signature(cls.__init__).parameters.items()
        if key not in _HOW and each.kind in kinds
    }


def _kind(default: object) -> Any:
    """Say what an option may be, from what it is by default."""
    if isinstance(default, bool | str):
        return type(default)
    if isinstance(default, int | float):
        return float
    if isinstance(default, tuple):
        return tuple[float, ...]
    return bool | float | str | None
