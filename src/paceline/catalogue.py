"""Catalogues: descriptions by name.

A catalogue finds a description's class by its short name, or by `file.py:Class` or
`module:Class` for a user's own. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from paceline.errors import Problem, SpecError, users_traceback
from paceline.system.interpreter import find_below
from paceline.system.named_files import found_at, name_of

if TYPE_CHECKING:
    from paceline.description import Description


# How a description says that it lacks a field.
NO_SUCH_FIELD: Final = ("no such field", "it has no fields")
# Kinds that the command line chooses by an option of their own.
_WITH_OPTION: Final = {"strategy", "cluster"}


@dataclass(frozen=True)
class Entry:
    """Where the catalogue finds a class, and the fields its name stands for."""

    path: str
    fixed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Catalogue:
    """The descriptions of one kind, by name; also loads a user's own."""

    kind: str
    base: str
    entries: Mapping[str, Entry]
    whole_file: Entry | None = None
    """What `file.py` without a class stands for, where it stands for something."""
    adapter: str | None = None
    """A function that makes a description's class of a class that is of another kind."""

    def build(self, table: Mapping[str, Any]) -> Any:
        """Make the description a table tells of. Raises `SpecError` with every problem in it."""
        values = dict(table)
        name = values.pop("name", None)
        if not isinstance(name, str):
            raise SpecError([Problem(self.kind, name, "a name is needed", tuple(self.entries))])
        cls, fixed = self.find(name)
        clashes = [
            Problem(f"{self.kind}.{key}", values[key], f"{name} means {key} = {value!r}")
            for key, value in fixed.items()
            if values.get(key, value) != value
        ]
        if clashes:
            raise SpecError(clashes)
        from paceline.description import build

        try:
            return build(cls, {**values, **fixed}, self.kind)
        except SpecError as error:
            raise SpecError([self._with_owners(each, name) for each in error.problems]) from None

    def _with_owners(self, problem: Problem, name: str) -> Problem:
        """Where a field is another entry's, as a link is `emulated`'s, say whose."""
        if not problem.reason.startswith(NO_SUCH_FIELD) or self.kind == "workload":
            return problem  # a workload is what somebody wants to train: no other is a remedy
        key = problem.field.removeprefix(f"{self.kind}.")
        owners = [each for each in self.entries if key in self._fields(each)]
        option = f"--{self.kind} " if self.kind in _WITH_OPTION else f"--set {self.kind}="
        remedy = " or ".join(f"{option}{each}" for each in owners)
        reason = f"no such field of {name}; add {remedy}" if owners else problem.reason
        return replace(problem, reason=reason)

    def _fields(self, name: str) -> set[str]:
        entry = self.entries[name]
        cls: Any = load(entry.path)
        return {each.name for each in fields(cls)} - entry.fixed.keys()

    def find(self, name: str) -> tuple[type[Description], Mapping[str, Any]]:
        """Import the class that a name stands for."""
        entry = self.entries.get(name)
        if entry is not None:
            return cast("type[Description]", load(entry.path)), entry.fixed
        if self.whole_file is not None and name.endswith(".py"):
            cls = cast("type[Description]", load(self.whole_file.path))
            return cls, {"file": name_of(found_at(name))}
        if ":" not in name:
            reason = f"no {self.kind} of that name, and not file.py:Class or module:Class"
            raise SpecError([Problem(self.kind, name, reason, tuple(self.entries))])
        return self._load_users(name), {}

    def _load_users(self, name: str) -> type[Description]:
        try:
            loaded = load(name)
            if self.adapter is not None:
                loaded = cast("Any", load(self.adapter))(loaded)
        except (Exception, SystemExit) as error:  # a script may end itself when it is imported
            reason = f"cannot be imported: {type(error).__name__}: {error}{_importer(error)}"
            where = users_traceback(error)
            raise SpecError([Problem(self.kind, name, reason, traceback=where)]) from error
        base = cast("type[Description]", load(self.base))
        if not (isinstance(loaded, type) and issubclass(loaded, base)):
            reason = f"not a subclass of {self.base.replace(':', '.')}"
            raise SpecError([Problem(self.kind, name, reason)])
        missing = sorted(getattr(loaded, "__abstractmethods__", ()))
        if missing:
            reason = f"does not define {', '.join(missing)}"
            raise SpecError([Problem(self.kind, name, reason)])
        return loaded


def _importer(error: BaseException) -> str:
    """Say which file lacks a module: it may be one that the user's file imports."""
    frames = traceback.extract_tb(error.__traceback__)
    files = [each for each in frames if not each.filename.startswith("<")]
    if not isinstance(error, ModuleNotFoundError) or not files:
        return ""
    return f", imported by {name_of(Path(files[-1].filename))} line {files[-1].lineno}"


def load(path: str) -> object:
    """Import what `module:Name` or `file.py:Name` names."""
    place, _, attribute = path.rpartition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # `module:Class` is looked for here too
    module = (
        _load_file(found_at(place)) if place.endswith(".py") else importlib.import_module(place)
    )
    try:
        return attrgetter(attribute)(module)  # a class may stand inside another
    except AttributeError:
        raise ImportError(f"{place} defines no {attribute}") from None


def _load_file(path: Path) -> ModuleType:
    """Import a file under a name of its own; its neighbours can be imported by it."""
    path = path.resolve()
    name = f"paceline_user_{path.stem}_{hashlib.sha256(bytes(path)).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.is_file():
        raise ImportError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    find_below(path.parent)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
