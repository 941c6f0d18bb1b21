"""Where a study is kept: found by its folder, by its name, or by its name and variant."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from paceline.errors import StoreError
from paceline.studies import NOTE, RUNS, STUDIES

_VARIANTS: Final = ("quick", "full")


def place(out: Path, name: str, variant: str) -> Path:
    """Give the folder of a study among all runs."""
    return out / f"study-{name}-{variant}"


def find(wanted: str, out: Path) -> Path | None:
    """Find a study's folder; None where something else is meant.

    `wanted` is its path, or as in `mnist-logistic` or `mnist-logistic-full` its name. Raises
    `StoreError` where a study of that name was not begun, or both of its variants were.
    """
    path = Path(wanted)
    if (path / NOTE).is_file():
        return path
    places = [] if path.exists() else _places(wanted.removeprefix("study-"), out)
    begun = [each for each in places if (each / NOTE).is_file()]
    if len(begun) > 1:
        names = " and ".join(each.name for each in begun)
        raise StoreError(f"study = {wanted!r}: {out} has {names}: name one of them")
    if places and not begun:
        raise StoreError(f"study = {wanted!r}: not in {out}; `paceline study` carries it out")
    return begun[0] if begun else None


def with_runs_of_studies(wanted: Iterable[str], out: Path) -> list[str]:
    """Put in the place of every study the folder that has its runs."""
    found = [(each, find(each, out)) for each in wanted]
    return [each if folder is None else _runs(each, folder) for each, folder in found]


def _runs(wanted: str, folder: Path) -> str:
    if not (folder / RUNS).is_dir():
        raise StoreError(f"study = {wanted!r}: {folder} has no runs yet")
    return str(folder / RUNS)


def _places(wanted: str, out: Path) -> list[Path]:
    """Where studies of a name would be; none where it is no study's."""
    return [
        place(out, name, variant)
        for name in STUDIES
        for variant in _VARIANTS
        if wanted in {name, f"{name}-{variant}"}
    ]
