"""Where files are that a spec names by their paths on the driver's machine.

On another machine they lie in a folder of the run. Their names stay: a result, and the rates of a
device, know a workload by what its user calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

_FOUND: Final[dict[str, Path]] = {}
_NAMES: Final[dict[Path, str]] = {}


def lay_out(places: Mapping[str, Path]) -> None:
    """Have files found in this process, and in those that it forks, elsewhere than named."""
    for name, path in places.items():
        _FOUND[name] = path.resolve()
        _NAMES[path.resolve()] = name


def found_at(name: str) -> Path:
    """Say where the file of a name is."""
    return _FOUND.get(name) or Path(name)


def name_of(path: Path) -> str:
    """Name a file as its user knows it."""
    path = path.resolve()
    return _NAMES.get(path) or str(path)
