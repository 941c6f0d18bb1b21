"""Copies of a state: into memory that is kept from one to the next, and without some parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, final

from paceline.training.state import State, Value

if TYPE_CHECKING:
    from torch import Tensor


@final
class Copier:
    """Copies a seat's state again and again.

    A fresh copy of a large model costs more in page faults than in bytes, and training waits for
    it. So the memory stays: what `copy` gave last is overwritten by the next call.
    """

    def __init__(self) -> None:
        self._memory: dict[str, Tensor] = {}

    def prepare(self, state: State, within: str = "") -> None:
        """Have the memory for copies of such a state at hand, and touched."""
        for name, value in state.items():
            path = f"{within}/{name}"
            if isinstance(value, Mapping):
                self.prepare(value, path)
            elif value is not None and not isinstance(value, (bool, int, float, str)):
                self._memory[path] = value.new_empty(value.shape).zero_()

    def copy(self, state: State, within: str = "") -> dict[str, Value]:
        """Give the same state with tensors of the copier's own."""
        return {name: self._copied(f"{within}/{name}", value) for name, value in state.items()}

    def _copied(self, path: str, value: Value) -> Value:
        if isinstance(value, Mapping):
            return self.copy(value, path)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        memory = self._memory.get(path)
        if memory is None or memory.shape != value.shape or memory.dtype != value.dtype:
            self._memory[path] = memory = value.detach().clone()
            return memory
        return memory.copy_(value.detach())


def without(state: State, paths: Iterable[str]) -> dict[str, Value]:
    """Give a state without some of its parts, each named from the whole on: `member/update`."""
    made = dict(state)
    for path in paths:
        name, _, rest = path.partition("/")
        part = made.pop(name, None)
        if rest and isinstance(part, Mapping):
            made[name] = without(part, [rest])
    return made


def completed(state: State, other: State, paths: Iterable[str]) -> dict[str, Value]:
    """Give a state with parts of another one, where it has none itself."""
    made = dict(state)
    for path in paths:
        name, _, rest = path.partition("/")
        part, theirs = made.get(name), other.get(name)
        if part is None and theirs is not None and not rest:
            made[name] = theirs
        elif isinstance(part, Mapping) and isinstance(theirs, Mapping):
            made[name] = completed(part, theirs, [rest])
    return made
