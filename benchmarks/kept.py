"""Figures that are written into a file as they are measured, and looked up there the next time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Figure = TypeVar("Figure")


class Kept:
    """What was measured already, a line each. Without a file, all is measured."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._known: dict[str, Any] = dict(json.loads(line) for line in lines)

    def __call__(self, key: str, measure: Callable[[], Figure]) -> Figure:
        """Give a figure that is there, or measure it: a number, or lists of numbers and texts."""
        if key not in self._known:
            self._known[key] = measure()
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a") as lines:
                    lines.write(json.dumps([key, self._known[key]]) + "\n")
        found: Figure = self._known[key]
        return found

    def repeated(self, key: str, measure: Callable[[], Figure]) -> Callable[[], Figure]:
        """Give what measures again each time it is called: the first, the second and so on."""
        numbers = itertools.count(1)
        return lambda: self(f"{key}, {next(numbers)}", measure)
