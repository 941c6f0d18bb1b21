"""What a script gave to `paceline.wrap`, sorted by kind, and whether it stays what it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from paceline.errors import LoopError


@final
@dataclass(frozen=True)
class Objects:
    """Modules, optimizers and loaders, in the order in which they were given."""

    given: tuple[Any, ...]
    modules: tuple[nn.Module, ...]
    optimizers: tuple[Optimizer, ...]
    loaders: tuple[Any, ...]

    @staticmethod
    def sorted(given: tuple[Any, ...]) -> Objects:
        """Sort them; raises `LoopError` where one is of no use."""
        modules = tuple(each for each in given if isinstance(each, nn.Module))
        optimizers = tuple(each for each in given if isinstance(each, Optimizer))
        loaders = tuple(each for each in given if not isinstance(each, nn.Module | Optimizer))
        for each in loaders:
            _check_loader(each)
        if not optimizers:
            raise LoopError("paceline.wrap was given no optimizer: without one there are no steps")
        return Objects(given, modules, optimizers, loaders)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """List what models and optimizers have, each once, in their order."""
        found = [each for module in self.modules for each in module.parameters()]
        for optimizer in self.optimizers:
            found += [each for group in optimizer.param_groups for each in group["params"]]
        return [*dict.fromkeys(found)]

    @property
    def names(self) -> dict[nn.Parameter, str]:
        """Say what parameters are called, in the first of the models that has them."""
        found: dict[nn.Parameter, str] = {}
        for module in self.modules:
            for name, each in module.named_parameters():
                found.setdefault(each, name)
        return found

    @property
    def values_per_parameter(self) -> float:
        """Say how many values the optimizers keep for each of theirs, on average."""
        lists = [group["params"] for each in self.optimizers for group in each.param_groups]
        trained = sum(each.numel() for parameters in lists for each in parameters)
        states = [state for each in self.optimizers for state in each.state.values()]
        values = (each for state in states for each in state.values())
        kept = sum(each.numel() for each in values if isinstance(each, Tensor) and each.dim())
        return float(kept / trained) if trained else 0.0

    def with_loaders(self, made: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Give everything back in its order, with new loaders."""
        known = (nn.Module, Optimizer)
        return tuple(each if isinstance(each, known) else made(each) for each in self.given)


def _check_loader(given: Any) -> None:
    """Raises `LoopError` where it cannot be one."""
    kind = type(given).__name__
    if not isinstance(given, Iterable) or isinstance(given, nn.Parameter):
        raise LoopError(
            f"paceline.wrap was given a {kind}; it takes modules, optimizers and loaders "
            "(a scheduler stays as it is)"
        )
    if not isinstance(given, list | tuple | set | dict):
        return
    for each in given.values() if isinstance(given, dict) else given:
        if isinstance(each, nn.Module | nn.Parameter | Optimizer | DataLoader):
            raise LoopError(
                f"paceline.wrap was given a {kind} with a {type(each).__name__} in it: give each "
                "by itself, as in paceline.wrap(first, second, optimizer, loader), or with a star, "
                "paceline.wrap(*models, …)"
            )


@final
class Unchanged:
    """Sees whether models and optimizers still have the parameters that they were wrapped with."""

    def __init__(self, objects: Objects, *, is_exchanged: bool) -> None:
        """`is_exchanged`: whether what others must have in common is fixed by `wrap`."""
        self._objects = objects
        self._parameters = self._listed()
        self._pointers = [each.data_ptr() for each in self._parameters]
        self._frozen = [e for e in self._parameters if is_exchanged and not e.requires_grad]

    def check(self) -> None:
        """Raises `LoopError` where a model or an optimizer was changed after `wrap`."""
        now = self._listed()
        same = len(now) == len(self._parameters) and all(
            one is other for one, other in zip(now, self._parameters, strict=True)
        )
        if not same or [each.data_ptr() for each in now] != self._pointers:
            what = "has other parameters" if not same else "was moved or converted"
            raise LoopError(
                f"a model or an optimizer {what} after paceline.wrap: make and convert models, and "
                "add parameter groups, before it"
            )
        if any(each.requires_grad for each in self._frozen):
            raise LoopError(
                "a parameter that was frozen at paceline.wrap requires gradients now, and these "
                "are not exchanged: unfreeze it before paceline.wrap, and freeze it again after "
                "if it is to be trained later only"
            )

    def _listed(self) -> list[nn.Parameter]:
        found = [each for module in self._objects.modules for each in module.parameters()]
        for optimizer in self._objects.optimizers:
            for group in optimizer.param_groups:
                found += group["params"]
        return found
