"""A forward pass of which each module waits only for its own parameters.

The first step, and each that is looked at closely, has all parameters before it begins, and sees
which of them are used before their module is called: these are waited for at the start of others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from paceline.training.replica import Replica

Await = Callable[[Collection[nn.Parameter] | None], int]
"""Waits until these parameters, or all, are the newest; returns when the last of them came."""


@final
class Awaiting:
    """Holds a model's forward pass up where its parameters are still under way."""

    def __init__(self, replica: Replica, wait: Await, note_ns: Callable[[int], None]) -> None:
        """`note_ns` is told how long was waited each time."""
        self._wait = wait
        self._note_ns = note_ns
        self._trained = replica.places.keys()
        self._covered: set[nn.Parameter] = set()
        self._at_start: set[nn.Parameter] = set()
        for module in replica.model.modules():
            self._hold(module)

    def _hold(self, module: nn.Module) -> None:
        if isinstance(module, torch.jit.ScriptModule):  # which calls no hooks of its parts
            self._at_start |= {each for each in module.parameters() if each in self._trained}
        own = [each for each in module.parameters(recurse=False) if each in self._trained]
        if own:

            def before(*_: Any) -> None:
                self._covered.update(own)
                self.until(own)

            module.register_forward_pre_hook(before)

    def until(self, parameters: Collection[nn.Parameter] | None = None) -> None:
        """Wait for these parameters, or for all."""
        began_ns = perf_counter_ns()
        self._wait(parameters)
        self._note_ns(perf_counter_ns() - began_ns)

    @contextmanager
    def forward(self, *, closely: bool) -> Iterator[None]:
        """Begin a forward pass; `closely` sees what is used before it is waited for."""
        self._covered.clear()
        if not closely:
            if self._at_start:
                self.until(self._at_start)
            yield
            return
        self.until()
        with _Seeing(self._see):
            yield

    def _see(self, value: object) -> None:
        if isinstance(value, Tensor):
            for each in (value, value._base):  # noqa: SLF001 - a view made before is the same
                if each in self._trained and each not in self._covered:
                    self._at_start.add(each)  # type: ignore[arg-type]


@final
class _Seeing(TorchFunctionMode):
    """Tells of every value that a function of torch is called with."""

    def __init__(self, see: Callable[[object], None]) -> None:
        super().__init__()
        self._see = see

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - there is no public way
            for each in tree_leaves((args, kwargs)):
                self._see(each)
        return func(*args, **(kwargs or {}))
