"""What a description is: a frozen dataclass that *is* the configuration of one part of a run.

Workloads, strategies, clusters and optimizers all derive from `Description`. Subclassing makes
the class a frozen, keyword-only dataclass; its annotations are what `--set part.field=value`
and a TOML table may hold, and are checked by pydantic, all of them at once.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, cast, dataclass_transform

from annotated_types import Ge, Gt
from pydantic import AllowInfNan, BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from paceline.errors import Problem, SpecError
from paceline.system.named_files import name_of

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
    except (KeyError, ValueError, OverflowError):
        return value


def parse_rate(value: object) -> object:
    """Turn "1gbit" or "2.5 Mbit" into bits a second; a number is taken as it is."""
    return _scaled(value, {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}, "100mbit or 1gbit")


def parse_duration(value: object) -> object:
    """Turn "5ms" into seconds; a number is taken as it is."""
    return _scaled(value, {"s": 1.0, "ms": 1e-3, "us": 1e-6}, "5ms or 0.1s")


def parse_every(value: object) -> object:
    """Take a number of steps, or seconds as `10s` or `500ms`; seconds are given as text in `s`."""
    text = str(value).strip().lower()
    if text.isdecimal():
        if int(text) < 1:
            raise ValueError("not at least 1")
        return int(text)
    if not isinstance(value, str) or not text.endswith("s"):
        raise ValueError("neither a number of steps nor seconds such as 10s")
    seconds = parse_duration(text)
    if not isinstance(seconds, float) or not seconds > 0:
        raise ValueError("not more than 0 s")
    return f"{seconds:g}s"


def _scaled(value: object, units: Mapping[str, float], example: str) -> object:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d[\d_]*(?:\.\d+)?)\s*([a-z]*)\s*", value.lower())
    if match is None or match[2] not in {"", *units}:
        raise ValueError(f"not of the form {example}")
    return float(match[1]) * units.get(match[2], 1.0)


Count = Annotated[int, Ge(1)]
NotNegativeInt = Annotated[int, Ge(0)]
Positive = Annotated[float, Gt(0), AllowInfNan(allow_inf_nan=False)]
NotNegative = Annotated[float, Ge(0), AllowInfNan(allow_inf_nan=False)]
Bytes = Annotated[int, BeforeValidator(parse_bytes), Ge(1)]
Rate = Annotated[Positive, BeforeValidator(parse_rate)]
Duration = Annotated[NotNegative, BeforeValidator(parse_duration)]


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Description:
    """Base of every description. `name` is how it is asked for on the command line."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True)(cls)
        if "name" not in cls.__dict__ and not cls.__module__.startswith("paceline."):
            # By an inherited name, other processes would find the class that it comes from.
            cls.name = Description.name  # type: ignore[method-assign]

    @property
    def name(self) -> str:
        """The catalogue's name, or `file.py:Class` for a class of the user's own."""
        return user_name(type(self))

    def problems(self) -> Iterator[Problem]:
        """Say what is wrong with the values taken together; single fields are checked already."""
        yield from ()

    def values(self) -> dict[str, Any]:
        """Give all fields as they are."""
        return {each.name: getattr(self, each.name) for each in _fields_of(self)}

    def table(self) -> dict[str, Any]:
        """Give all fields as plain values, `name` first: what is written as TOML.

        TOML has no word for None: it is left out where it is the default, and refused elsewhere.
        """
        lost = [
            Problem(each.name, None, "None cannot be written as TOML, and is not the default")
            for each in _fields_of(self)
            if getattr(self, each.name) is None and each.default is not None
        ]
        if lost:
            raise SpecError(lost)
        given = {key: value for key, value in self.values().items() if value is not None}
        return {"name": self.name} | given


def _fields_of(description: object) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cast("Any", description))


def build(cls: type[D], values: Mapping[str, Any], where: str, *, together: bool = True) -> D:
    """Make a description out of plain values. Raises `SpecError` with every problem found.

    Without `together` only each field by itself is checked.
    """
    try:
        made = cast("TypeAdapter[D]", _adapter(cast("Any", cls))).validate_python(dict(values))
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        reason = f"a field's type cannot be checked: {error.message.splitlines()[0]}"
        raise SpecError([Problem(where, cls.__name__, reason)]) from error
    except ValidationError as error:
        raise SpecError(_problems_of(error, cls, where)) from None
    problems = list(made.problems()) if together else []
    if problems:
        raise SpecError(problems)
    return made


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    """Making one takes ten times as long as using it, and a study makes hundreds of specs."""
    return TypeAdapter(cls)


def _problems_of(error: ValidationError, cls: type, where: str) -> list[Problem]:
    """Translate pydantic's findings: one problem a field, with its value and its choices."""
    names = tuple(each.name for each in dataclasses.fields(cls))
    found: dict[str, Problem] = {}
    for each in error.errors(include_url=False):
        key = str(each["loc"][0]) if each["loc"] else ""
        path = ".".join(filter(None, (where, key)))
        reason: str = each["msg"]
        choices: tuple[str, ...] = ()
        if each["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
            reason, choices = "no such field" if names else "it has no fields", names
        elif each["type"] == "literal_error":
            reason, choices = "not one of the choices", _literal_choices(each)
        elif each["type"] == "value_error":
            reason = str(each["ctx"]["error"])
        elif each["type"] == "tuple_type":
            reason = "not a list"
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


def user_name(cls: type) -> str:
    """Name a class that is in no catalogue so that another process can import it."""
    module = sys.modules.get(cls.__module__)
    if getattr(module, "__package__", None):  # its file alone would lose its relative imports
        return f"{cls.__module__}:{cls.__qualname__}"
    file = getattr(module, "__file__", None)
    return f"{name_of(Path(file)) if file else '<interactive>'}:{cls.__qualname__}"
