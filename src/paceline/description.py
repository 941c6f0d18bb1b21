"""What a description is: a frozen dataclass that *is* the configuration of one part of a run.

Workloads, strategies, clusters and optimizers all derive from `Description`. Subclassing makes
the class a frozen, keyword-only dataclass; its annotations are what `--set part.field=value`
and a TOML table may hold, and are checked by pydantic, all of them at once.

A `Catalogue` finds a description's class by its short name, or by `file.py:Class` or
`module:Class` for a user's own; nothing is imported before it is asked for.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar, TypeVar, cast, dataclass_transform

from annotated_types import Ge, Gt
from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from paceline.errors import Problem, SpecError

D = TypeVar("D", bound="Description")

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30}


def parse_bytes(value: object) -> object:
    """Turn "233MB" or "64KiB" into a number of bytes; leave anything else to the type check."""
    match = re.fullmatch(r"\s*([\d_.]+)\s*([kmg]?i?b?)\s*", str(value).lower())
    if not isinstance(value, str) or match is None:
        return value
    number, unit = match.groups()
    unit = unit if unit.endswith("b") or not unit else unit + "b"
    try:
        return round(float(number) * _UNITS[unit])
    except ValueError:
        return value


Count = Annotated[int, Ge(1)]
Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
Bytes = Annotated[int, BeforeValidator(parse_bytes), Ge(1)]


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Description:
    """Base of every description. `name` is how it is asked for on the command line."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True)(cls)

    @property
    def name(self) -> str:
        """The catalogue's name, or `file.py:Class` for a class of the user's own."""
        return _user_name(type(self))

    def problems(self) -> Iterator[Problem]:
        """Say what is wrong with the values taken together; single fields are checked already."""
        yield from ()

    def table(self) -> dict[str, Any]:
        """Give all fields as plain values, `name` first: what is written as TOML."""
        fields = dataclasses.fields(cast("Any", self))
        values = {each.name: getattr(self, each.name) for each in fields}
        return {"name": self.name} | {key: value for key, value in values.items() if value is not None}


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
        return build(cls, {**values, **fixed}, self.kind)

    def find(self, name: str) -> tuple[type[Description], Mapping[str, Any]]:
        """Import the class that a name stands for."""
        entry = self.entries.get(name)
        if entry is not None:
            return cast("type[Description]", _load(entry.path)), entry.fixed
        if ":" not in name:
            reason = f"no {self.kind} of that name, and not file.py:Class or module:Class"
            raise SpecError([Problem(self.kind, name, reason, tuple(self.entries))])
        return self._load_users(name), {}

    def _load_users(self, name: str) -> type[Description]:
        try:
            loaded = _load(name)
        except Exception as error:
            reason = f"cannot be imported: {type(error).__name__}: {error}"
            raise SpecError([Problem(self.kind, name, reason)]) from error
        base = cast("type[Description]", _load(self.base))
        if not (isinstance(loaded, type) and issubclass(loaded, base)):
            reason = f"not a subclass of {self.base.replace(':', '.')}"
            raise SpecError([Problem(self.kind, name, reason)])
        missing = sorted(getattr(loaded, "__abstractmethods__", ()))
        if missing:
            reason = f"does not define {', '.join(missing)}"
            raise SpecError([Problem(self.kind, name, reason)])
        return loaded


def build(cls: type[D], values: Mapping[str, Any], where: str) -> D:
    """Make a description out of plain values. Raises `SpecError` with every problem found."""
    try:
        made = TypeAdapter(cls).validate_python(dict(values))
    except ValidationError as error:
        raise SpecError(_problems_of(error, cls, where)) from None
    problems = list(made.problems())
    if problems:
        raise SpecError(problems)
    return made


def _problems_of(error: ValidationError, cls: type, where: str) -> list[Problem]:
    """Translate pydantic's findings: one problem a field, with its value and its choices."""
    names = tuple(each.name for each in dataclasses.fields(cls))
    found: dict[str, Problem] = {}
    for each in error.errors(include_url=False):
        key = str(each["loc"][0]) if each["loc"] else ""
        path = f"{where}.{key}" if where else key
        reason, choices = each["msg"], ()
        if each["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
            reason, choices = "no such field", names
        elif each["type"] == "literal_error":
            reason, choices = "not one of the choices", _literal_choices(each)
        elif each["type"] == "missing":
            found[path] = Problem(path, None, "must be given")
            continue
        else:
            reason = reason[0].lower() + reason[1:]
        found[path] = _merged(found.get(path), Problem(path, each["input"], reason, choices))
    return list(found.values())


def _literal_choices(detail: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(re.findall(r"'([^']*)'", str(detail["ctx"]["expected"])))


def _merged(first: Problem | None, second: Problem) -> Problem:
    """A field of several types fails once for each; say so in one problem."""
    if first is None:
        return second
    reasons = dict.fromkeys((first.reason, second.reason))
    choices = dict.fromkeys((*first.choices, *second.choices))
    return Problem(second.field, first.value, ", or ".join(reasons), tuple(choices))


def _load(path: str) -> object:
    """Import what `module:Name` or `file.py:Name` names."""
    place, _, attribute = path.rpartition(":")
    module = _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    try:
        return getattr(module, attribute)
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
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _user_name(cls: type) -> str:
    """Name a user's class so that another process can import it."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return f"{Path(file).resolve() if file else '<interactive>'}:{cls.__qualname__}"
