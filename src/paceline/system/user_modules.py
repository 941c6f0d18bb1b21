"""Which files a user's own file needs from beside it: the modules that it imports, and theirs."""

from __future__ import annotations

import ast
import contextlib
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_OURS: Final = Path(__file__).resolve().parent.parent
_INSTALLED: Final = {"site-packages", "dist-packages"}


def needed_by(file: Path, root: Path) -> list[Path]:
    """Give a file, and all modules below `root` that it imports, now or when they are needed.

    Those that were imported already are found whatever way they were. Of imports within functions
    only statements are seen.
    """
    found: dict[Path, None] = {}
    waiting = [file.resolve(), *_imported_below(root)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = None
            waiting += [each for each in _named_in(path, root) if is_own(each, root)]
    return sorted(found)


def own_module(name: str) -> tuple[Path, Path] | None:
    """Give a user's own module, and the folder it was found in; None where it is installed."""
    told = getattr(sys.modules.get(name), "__file__", None)
    if told is None:
        return None
    file = Path(told).resolve()
    root = file.parents[name.count(".") + (file.stem == "__init__")]
    return (file, root) if is_own(file, root) else None


def is_own(file: Path, root: Path) -> bool:
    """Whether a module below a folder is the user's: neither installed nor a part of Paceline."""
    file = file.resolve()
    standard = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return (
        file.is_relative_to(root)
        and file.suffix == ".py"
        and not file.is_relative_to(_OURS)
        and not _INSTALLED.intersection(file.parts)
        and not any(file.is_relative_to(each) for each in standard)
    )


def _imported_below(root: Path) -> Iterator[Path]:
    """Yield the user's modules that this process has imported from a folder."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        path = Path(file) if isinstance(file, str) else Path()
        # Modules that are made, as torch has some, name files that there are not.
        if path.is_absolute() and path.is_file() and is_own(path, root):
            yield path.resolve()


def _named_in(file: Path, root: Path) -> Iterator[Path]:
    """Yield the files that import statements of a file name, those that there are."""
    with contextlib.suppress(SyntaxError, ValueError, OSError):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                for each in node.names:
                    yield from _along(root, each.name.split("."))
            elif isinstance(node, ast.ImportFrom):
                base = file.parents[node.level - 1] if node.level else root
                for each in node.names:
                    yield from _along(base, [*(node.module or "").split("."), each.name])


def _along(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield the packages and the module on the way that a dotted name takes from a folder."""
    for name in filter(None, names):
        if (folder / f"{name}.py").is_file():
            yield folder / f"{name}.py"
            return
        folder /= name
        if not folder.is_dir():
            return
        if (folder / "__init__.py").is_file():
            yield folder / "__init__.py"
