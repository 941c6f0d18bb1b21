"""What learns or counts, as plain values: taken from one object, loaded into another like it.

A state is a table of names to numbers, text, tensors and further tables, so it can be written to a
file without pickle (`store/states.py`). A checkpoint is the states of all seats at one moment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias, final

from paceline.errors import StateError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Value: TypeAlias = "bool | int | float | str | Tensor | Mapping[str, Value] | None"
State: TypeAlias = Mapping[str, Value]


class Stateful(ABC):
    """Whatever learns or counts.

    A state is taken while nothing moves: all workers rest, every push is answered. Its tensors may
    be the object's own memory: whoever keeps a state beyond that moment uses `copied`.

    It is loaded into an object that was newly made from the same description, in place, before the
    first step. That object then continues exactly as the other would have. What does not fit is a
    `StateError`, which names the field, what it holds and what was expected; the object is of no
    use then.
    """

    __slots__ = ()

    @abstractmethod
    def state(self) -> State:
        """Give everything that the next step depends on, and what was counted so far."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Take over what `state` gave. Raises `StateError` where it does not fit."""


class Adopting(Stateful, ABC):
    """What can also go on from a state of a group of another size."""

    __slots__ = ()

    @abstractmethod
    def adopt(self, state: State) -> None:
        """Take over what was learnt, and nothing that was counted by worker."""


class Returning(Stateful, ABC):
    """What others go on with when its process is lost and started again."""

    __slots__ = ()

    @abstractmethod
    def snapshot(self) -> State:
        """Give what it needs to go on from here in another process, while others wait for it."""

    @abstractmethod
    def come_back(self, snapshot: State | None) -> None:
        """Go on from a snapshot that it kept, or, where there is none, from what it has now."""


def copied(state: State) -> dict[str, Value]:
    """Give the same state with tensors of its own."""
    return {name: _copy(value) for name, value in state.items()}


def _copy(value: Value) -> Value:
    if isinstance(value, Mapping):
        return copied(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return value.detach().clone()


def attributes(owner: object, *names: str) -> dict[str, Value]:
    """Give an object's attributes as fields; a leading underscore is not part of a field's name."""
    return {_field(name): _plain(getattr(owner, name)) for name in names}


def _plain(value: object) -> Value:
    return value.state() if isinstance(value, Stateful) else value  # type: ignore[return-value]


def _field(name: str) -> str:
    return name.lstrip("_")


def picked(state: State, *names: str) -> State:
    """Give some fields of a state only; one that is missing is missed by who reads them."""
    return {name: state[name] for name in names if name in state}


def by_number(counts: Mapping[int, int]) -> dict[str, Value]:
    """Give what was counted by rank, or by another number, as a table of counts."""
    return {str(number): count for number, count in sorted(counts.items())}


def whole_numbers(numbers: Iterable[int]) -> Tensor:
    """Give a list of whole numbers as a tensor."""
    import torch

    return torch.tensor(list(numbers), dtype=torch.int64)


def real_numbers(numbers: Iterable[float]) -> Tensor:
    """Give a list of numbers as a tensor; none is rounded."""
    import torch

    return torch.tensor(list(numbers), dtype=torch.float64)


@contextmanager
def within(name: str) -> Iterator[None]:
    """Load a part inside: what is wrong with it is then named from the whole on."""
    try:
        yield
    except StateError as error:
        raise error.within(name) from None


@final
class StateReader:
    """A state's fields, taken one by one: `with StateReader(state) as fields`.

    A field that is missing, or holds something else, is a `StateError`; so, at the end of the
    block, is one that nothing has taken.
    """

    def __init__(self, state: State) -> None:
        self._left = dict(state)

    def __enter__(self) -> StateReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._left:
            name, value = next(iter(self._left.items()))
            raise _wrong(name, value, "no such field")

    def attributes(self, owner: object, *names: str) -> None:
        """Set an object's attributes, each to a value of the type that it has now."""
        for name in names:
            self._set(owner, name, getattr(owner, name))

    def _set(self, owner: object, name: str, now: object) -> None:
        field = _field(name)
        if isinstance(now, Stateful):
            self.part(field, now)
        elif isinstance(now, bool):
            setattr(owner, name, self.flag(field))
        elif isinstance(now, int):
            setattr(owner, name, self.whole(field))
        elif isinstance(now, float):
            setattr(owner, name, self.number(field))
        elif isinstance(now, str):
            setattr(owner, name, self.text(field))
        else:
            self.fill(field, now)  # type: ignore[arg-type]

    def whole(self, name: str) -> int:
        """Take a whole number."""
        value = self._take(name, "a whole number")
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(name, value, "not a whole number")
        return value

    def whole_or_none(self, name: str) -> int | None:
        """Take a whole number, or none."""
        return None if self._is_none(name) else self.whole(name)

    def number(self, name: str) -> float:
        """Take a number."""
        value = self._take(name, "a number")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _wrong(name, value, "not a number")
        return value

    def number_or_none(self, name: str) -> float | None:
        """Take a number, or none."""
        return None if self._is_none(name) else self.number(name)

    def _is_none(self, name: str) -> bool:
        return self._left.get(name, name) is None and self._left.pop(name) is None

    def flag(self, name: str) -> bool:
        """Take true or false."""
        value = self._take(name, "true or false")
        if not isinstance(value, bool):
            raise _wrong(name, value, "not true or false")
        return value

    def text(self, name: str) -> str:
        """Take a text."""
        value = self._take(name, "text")
        if not isinstance(value, str):
            raise _wrong(name, value, "not text")
        return value

    def table(self, name: str) -> State:
        """Take a table of further fields."""
        value = self._take(name, "a table")
        if not isinstance(value, Mapping):
            raise _wrong(name, value, "not a table")
        return value

    def expect(self, name: str, wanted: float | str) -> None:
        """Take a field that can hold but one value: what it is about is not loaded, but given."""
        value = self._take(name, repr(wanted))
        if type(value) is not type(wanted) or value != wanted:
            raise _wrong(name, value, f"expected {wanted!r}")

    def part(self, name: str, part: Stateful) -> None:
        """Load a part of the object from the table of this name."""
        table = self.table(name)
        with within(name):
            part.load(table)

    def counts(self, name: str) -> Counter[str]:
        """Take a table of whole numbers."""
        table = self.table(name)
        with within(name), StateReader(table) as counts:
            return Counter({key: counts.whole(key) for key in table})

    def counts_by_number(self, name: str) -> Counter[int]:
        """Take what `by_number` gave."""
        counts = self.counts(name)
        for key in counts:
            if not key.removeprefix("-").isdecimal():
                raise _wrong(
                    f"{name}.{key}", counts[key], "counted by something else than a number"
                )
        return Counter({int(key): count for key, count in counts.items()})

    def numbers(self, name: str) -> list[float]:
        """Take what `real_numbers` gave."""
        import torch

        return [float(each) for each in self.vector(name, torch.float64).tolist()]

    def whole_numbers(self, name: str, count: int | None = None) -> list[int]:
        """Take what `whole_numbers` gave; `count` says how many there must be."""
        import torch

        values = self.vector(name, torch.int64)
        if count is not None and len(values) != count:
            raise _wrong(name, values, f"expected {count} values")
        return [int(each) for each in values.tolist()]

    def vector(self, name: str, dtype: torch.dtype) -> Tensor:
        """Take a vector of any length."""
        wanted = f"a vector of {_word(dtype)}"
        value = self._tensor(name, wanted)
        if value.dtype != dtype or value.dim() != 1:
            raise _wrong(name, value, f"expected {wanted}")
        return value

    def fill(self, name: str, target: Tensor) -> None:
        """Take a tensor and copy it into one of the same dtype and shape."""
        value = self._tensor(name, _shown(target))
        if value.dtype != target.dtype or value.shape != target.shape:
            raise _wrong(name, value, f"expected {_shown(target)}")
        target.copy_(value)

    def fill_all(self, name: str, targets: Mapping[str, Tensor]) -> None:
        """Do the same for a table of tensors."""
        table = self.table(name)
        with within(name), StateReader(table) as fields:
            for key, target in targets.items():
                fields.fill(key, target)

    def _tensor(self, name: str, wanted: str) -> Tensor:
        import torch

        value = self._take(name, wanted)
        if not isinstance(value, torch.Tensor):
            raise _wrong(name, value, f"expected {wanted}")
        return value

    def _take(self, name: str, wanted: str) -> Value:
        if name not in self._left:
            raise StateError(name, "nothing", f"missing; expected {wanted}")
        return self._left.pop(name)


def _wrong(name: str, value: Value, reason: str) -> StateError:
    return StateError(name, _shown(value), reason)


def _shown(value: Value) -> str:
    """Say what a value is, in a few words: of a tensor its dtype and shape."""
    if isinstance(value, Mapping):
        return f"a table of {len(value)} fields"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}…"
    return f"{_word(value.dtype)} {tuple(value.shape)}"


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
