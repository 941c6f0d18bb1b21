"""Which of a user's own files a run needs on other machines."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import final

from paceline.clusters.luggage import MOST_BYTES, MOST_FILES, Packed
from paceline.compute.rates import PREFIX, own_file
from paceline.errors import Problem, SpecError
from paceline.parts import code_in
from paceline.spec import RunSpec
from paceline.store.runs import RunDir
from paceline.system.user_modules import needed_by, own_module
from paceline.workloads.base import FUNCTIONS


def luggage_of(spec: RunSpec) -> list[Packed]:
    """Pack the files that a spec names and the modules beside them; none on the driver's machine.

    Raises `SpecError` where they are more than travels.
    """
    if not spec.cluster.is_elsewhere:
        return []
    packing = _Packing()
    for name in code_in(tomllib.loads(spec.toml())):
        packing.add_code(name if name.endswith(".py") else name.rpartition(":")[0])
    file = own_file(spec.device)
    if file is not None:
        packing.add([file.resolve()], file.resolve().parent, spec.device.removeprefix(PREFIX))
    return packing.done()


def keep_source(run_dir: RunDir, spec: RunSpec) -> None:
    """Keep the user's own files with the run: they may change tomorrow."""
    parts = (spec.workload, spec.strategy, spec.cluster)
    functions = [each for each in map(spec.workload.values().get, FUNCTIONS) if each]
    names = [*(each.name for each in parts), *functions]
    files = {Path(each) for each in map(_file_of, names) if each} | {own_file(spec.device)}
    for file in files:
        if file is not None and file.is_file():
            run_dir.source.mkdir(exist_ok=True)
            target = run_dir.source / file.name
            if target.exists():  # another file of the same name
                target = run_dir.source / f"{file.parent.name}-{file.name}"
            shutil.copy2(file, target)


def _file_of(name: str) -> str:
    """Name the file of a user's own class or function, or a script; empty: it is none."""
    place = name if name.endswith(".py") else name.rpartition(":")[0]
    return place if place.endswith(".py") else ""


@final
class _Packing:
    """Files by root: the folder that their modules are found in."""

    def __init__(self) -> None:
        self._roots: list[Path] = []
        self._files: dict[str, tuple[Path, str]] = {}

    def add_code(self, place: str) -> None:
        """Add `file.py`, or a module that is not installed, and what it imports from beside it."""
        if place.endswith(".py"):
            file = Path(place).resolve()
            self.add(needed_by(file, file.parent), file.parent)
        elif (found := own_module(place)) is not None:
            self.add(needed_by(*found), found[1])

    def add(self, paths: list[Path], root: Path, name: str | None = None) -> None:
        """Add files below a root, under what the spec calls them, if not by their paths."""
        if root not in self._roots:
            self._roots.append(root)
        for path in paths:
            target = f"{self._roots.index(root)}/{path.relative_to(root).as_posix()}"
            self._files[target] = path, name or str(path)

    def done(self) -> list[Packed]:
        """Read them; raises `SpecError` where they are too many or too large."""
        sizes = {path: path.stat().st_size for path, _ in self._files.values()}
        total = sum(sizes.values())
        if len(self._files) > MOST_FILES or total > MOST_BYTES:
            largest = max(sizes, key=lambda path: sizes[path])
            reason = (
                f"{len(self._files):,} files of {total:,} bytes would travel to the nodes; at most "
                f"{MOST_FILES:,} files of {MOST_BYTES:,} bytes do. The largest is {largest}"
            )
            raise SpecError([Problem("source", ", ".join(map(str, self._roots)), reason)])
        return [
            Packed(path=target, name=name, data=path.read_bytes())
            for target, (path, name) in self._files.items()
        ]
