"""One evaluation of several workers, each of its share of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from paceline.comm.words import Evaluated


@final
class SharedEvaluation:
    """Who evaluates a share, and what was found so far."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self.missing = set(self.names)
        self._found: list[Evaluated] = []

    def take(self, name: str, word: Evaluated) -> None:
        """A worker has evaluated its share."""
        self.missing.remove(name)
        self._found.append(word)

    @property
    def is_in_vain(self) -> bool:
        """Whether all who shared are gone before any of them found something."""
        return not self.missing and not self._found

    def joined(self) -> dict[str, float] | None:
        """Give the mean of each value, weighted by rows; None: somebody still evaluates."""
        if self.missing or not self._found:
            return None
        names = dict.fromkeys(name for each in self._found for name in each.metrics)
        return {name: self._mean(name) for name in names}

    def _mean(self, name: str) -> float:
        found = [(each.metrics[name], each.num_rows) for each in self._found_with(name)]
        total = sum(rows for _, rows in found)
        if not total:  # then nothing weighs more than another
            return sum(value for value, _ in found) / len(found)
        return sum(value * rows for value, rows in found if rows) / total

    def _found_with(self, name: str) -> Iterable[Evaluated]:
        return (each for each in self._found if name in each.metrics)


def all_share(wishes: Mapping[str, bool]) -> bool:
    """Whether there are workers that rest, and all of them came to share what they do."""
    return bool(wishes) and all(wishes.values())
