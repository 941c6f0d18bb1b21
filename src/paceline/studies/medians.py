"""What was repeated with other seeds, in a table: the middle, half the range, and how many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from paceline.exhibits.values import Column
from paceline.studies.measures import median

SEEDS: Final = Column(name="n", label="n", form="d")
NOTE: Final = "Medians over n seeds; ± is half the range from the lowest to the highest. "


def of_seeds(**measured: Sequence[float]) -> dict[str, float | None]:
    """Give the cells of `columns`, by name; of one seed the spread is not known."""
    middles = {name: median(found) if found else None for name, found in measured.items()}
    spreads = {_spread(name): _half_range(found) for name, found in measured.items()}
    return middles | spreads


def columns(plain: Iterable[Column]) -> list[Column]:
    """Give the same columns with their spread behind each value."""
    return [replace(each, spread=_spread(each.name)) for each in plain]


def first_of(num_seeds: int) -> str:
    """Say that a figure draws one run of several; empty where there is one."""
    return f"Drawn is the first of {num_seeds} seeds. " if num_seeds > 1 else ""


def _spread(name: str) -> str:
    return f"{name}_spread"


def _half_range(found: Sequence[float]) -> float | None:
    return (max(found) - min(found)) / 2 if len(found) > 1 else None
