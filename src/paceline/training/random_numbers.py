"""The random numbers that a process draws without naming a generator: torch, numpy, Python."""

from __future__ import annotations

import random
from typing import Any, Final, final

import numpy as np
import torch

from paceline.errors import StateError
from paceline.training.state import State, Stateful, StateReader, attributes, whole_numbers

_KIND: Final = "MT19937"
# Python keeps the words of the same generator, and behind them its position in them.
_NUM_WORDS: Final = 625


@final
class RandomNumbers(Stateful):
    """Where this process stands in its random numbers.

    They are one sequence for all threads of a process. A generator that a workload makes for
    itself is not seen.
    """

    def __init__(self) -> None:
        self._torch = _OfTorch()
        self._numpy = _OfNumpy()
        self._python = _OfPython()

    def state(self) -> State:
        return attributes(self, "_torch", "_numpy", "_python")

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "_torch", "_numpy", "_python")


@final
class _OfTorch(Stateful):
    def state(self) -> State:
        return {"words": torch.get_rng_state()}

    def load(self, state: State) -> None:
        words = torch.get_rng_state()
        with StateReader(state) as fields:
            fields.fill("words", words)
        _set("words", torch.set_rng_state, words)


@final
class _OfNumpy(Stateful):
    def state(self) -> State:
        told: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - a workload may draw from it
        return {
            "kind": told["bit_generator"],
            "words": whole_numbers(told["state"]["key"].tolist()),
            "position": told["state"]["pos"],
            "has_gauss": told["has_gauss"],
            "gauss": told["gauss"],
        }

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.expect("kind", _KIND)
            words = _words(fields, _NUM_WORDS - 1)
            position, has_gauss = fields.whole("position"), fields.whole("has_gauss")
            told = (_KIND, words, position, has_gauss, fields.number("gauss"))
        _set("position", np.random.set_state, told)


@final
class _OfPython(Stateful):
    def state(self) -> State:
        version, words, gauss = random.getstate()
        return {"version": version, "words": whole_numbers(words), "gauss": gauss}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            version, _, _ = random.getstate()
            fields.expect("version", version)
            words = tuple(_words(fields, _NUM_WORDS))
            told = (version, words, fields.number_or_none("gauss"))
        _set("words", random.setstate, told)


def _words(fields: StateReader, count: int) -> list[int]:
    words = whole_numbers([0] * count)
    fields.fill("words", words)
    return [int(word) for word in words.tolist()]


def _set(field: str, setter: Any, told: Any) -> None:
    """Hand over what has the right form; the generator itself says whether it can be."""
    try:
        setter(told)
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise StateError(field, "a generator's state", str(error)) from None
