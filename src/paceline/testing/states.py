"""What everything with a state must do: saved, loaded and continued, it is what it would have been.

Subclass the suite in a test file, say how the object is made and what it does, and run pytest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import StateError
from paceline.store.states import read_state, write_state
from paceline.training.state import State, Stateful, Value, copied


class StateConformance(ABC):
    """Subclass it, write `make` and `advance`, and run pytest."""

    @abstractmethod
    def make(self) -> Any:
        """Make the object, a `Stateful`, as its description says."""

    @abstractmethod
    def advance(self, thing: Any) -> None:
        """Have it learn or count something, depending on nothing but its state."""

    def advanced(self, num_times: int) -> Stateful:
        """Make the object and have it advance."""
        thing: Stateful = self.make()
        for _ in range(num_times):
            self.advance(thing)
        return thing

    def test_saved_loaded_and_continued_it_is_what_it_would_have_been(self, tmp_path: Path) -> None:
        write_state(tmp_path / "state", self.advanced(3).state())
        continued = self.make()
        continued.load(read_state(tmp_path / "state"))
        assert_equal(continued.state(), self.advanced(3).state())
        self.advance(continued)
        self.advance(continued)
        assert_equal(continued.state(), self.advanced(5).state())

    def test_a_file_gives_the_state_that_was_written(self, tmp_path: Path) -> None:
        state = self.advanced(2).state()
        write_state(tmp_path / "state", state)
        assert_equal(read_state(tmp_path / "state"), state)

    def test_it_is_new_before_it_is_loaded(self) -> None:
        """Else the first check would pass if `load` did nothing."""
        if not self.make().state():
            pytest.skip("it has nothing to remember")
        with pytest.raises(AssertionError):
            assert_equal(self.make().state(), self.advanced(3).state())

    def test_whatever_does_not_fit_is_an_error_that_names_the_field(self) -> None:
        state = copied(self.advanced(2).state())
        for name in state:
            with pytest.raises(StateError, match=name):
                self.make().load({key: value for key, value in state.items() if key != name})
            with pytest.raises(StateError, match=name):
                self.make().load({**state, name: _other(state[name])})
        with pytest.raises(StateError, match="unheard = 1: no such field"):
            self.make().load({**state, "unheard": 1})


def _other(value: Value) -> Value:
    """Give a value of another kind."""
    return {"unheard": 1} if isinstance(value, (bool, int, float, str)) else "of another kind"


def assert_equal(one: State, other: State, where: str = "") -> None:
    """Compare two states to the bit; what differs is named."""
    import torch

    assert one.keys() == other.keys(), where
    for name, mine in one.items():
        theirs, whole = other[name], f"{where}{name}"
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            assert_equal(mine, theirs, f"{whole}.")
        elif isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor):
            assert mine.dtype == theirs.dtype, whole
            assert mine.shape == theirs.shape, whole
            same = mine.contiguous().view(-1).view(torch.uint8)
            assert torch.equal(same, theirs.contiguous().view(-1).view(torch.uint8)), whole
        else:
            assert type(mine) is type(theirs), whole
            assert mine == theirs or (mine != mine and theirs != theirs), whole  # noqa: PLR0124
