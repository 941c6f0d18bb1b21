"""Plain values as dataclasses: every value is of the type that its field is annotated with.

pydantic would do this too, but importing it takes as long as `paceline ls` does altogether, and of
its abilities a stored result needs none but this one.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")
Read = Callable[[Any, str], Any]

_MOST_SHOWN: Final = 40
_MOST_SECONDS: Final = 1e18
_MOST_WHOLE: Final = 1 << 64
_NO_FIELDS: Final[Mapping[str, Any]] = {}


if TYPE_CHECKING:
    AnyFloat = float
else:

    class AnyFloat(float):
        """In a schema: a number that need not be finite, as a loss."""


def read(cls: type[T], table: object, where: str = "", *, strict: bool = False) -> T:
    """Make a dataclass of a table; fields that it does not have are left aside, unless `strict`.

    Raises `ValueError` that names the field, what it holds and what it should hold. Numbers are
    finite.
    """
    made: T = _reader(cast("Any", cls), strict)(table, where)
    return made


def fits(
    table: object,
    needed: Mapping[str, Any],
    others: Mapping[str, Any] = _NO_FIELDS,
    rest: Any = Any,
) -> bool:
    """Whether a table has all fields that are needed, and every field is of its type.

    Those that are in neither are of the type `rest`.
    """
    if not isinstance(table, dict) or not needed.keys() <= table.keys():
        return False
    try:
        for name, value in table.items():
            _reader(needed.get(name) or others.get(name) or rest)(value, name)
    except ValueError:
        return False
    return True


@cache
def _reader(hint: Any, strict: bool = False) -> Read:
    """Give what reads a value of a type; made once for each."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass_reader(hint, strict)
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return _union_reader(arguments, strict)
    if origin is Literal:
        return _literal_reader(arguments)
    if origin is dict:
        return _dict_reader(arguments[1], strict)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return _fixed_reader(arguments, strict)
    if origin in {list, tuple}:
        return _list_reader(origin, arguments[0], strict)
    raise TypeError(f"no way to read a {hint}")


def _dataclass_reader(cls: type, strict: bool) -> Read:
    hints = get_type_hints(cls)
    fields = [each for each in dataclasses.fields(cls) if each.init]
    needed = {each.name for each in fields if _has_no_default(each)}
    readers = {each.name: _bounded(each.name, _reader(hints[each.name], strict)) for each in fields}

    def made(value: Any, where: str) -> Any:
        table = _table(value, where)
        dot = f"{where}." if where else ""
        if missing := needed - table.keys():
            raise ValueError(f"{dot}{min(missing)} is missing")
        if strict and (unknown := table.keys() - readers.keys()):
            raise ValueError(f"{dot}{min(map(str, unknown))[:_MOST_SHOWN]} is no field of it")
        return cls(
            **{
                name: one(table[name], f"{dot}{name}")
                for name, one in readers.items()
                if name in table
            }
        )

    return made


def _bounded(name: str, one: Read) -> Read:
    """Keep seconds, and what is counted in one, to what a sum of them can still be."""
    if not name.endswith("_s"):
        return one

    def read_it(value: Any, where: str) -> Any:
        made = one(value, where)
        if isinstance(made, (int, float)) and abs(made) > _MOST_SECONDS:
            raise _wrong(where, value, "a time or a rate that can be")
        return made

    return read_it


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _union_reader(hints: tuple[Any, ...], strict: bool) -> Read:
    """A type or None is all that is needed."""
    (hint,) = (each for each in hints if each is not types.NoneType)
    one = _reader(hint, strict)
    return lambda value, where: None if value is None else one(value, where)


def _literal_reader(choices: tuple[Any, ...]) -> Read:
    def chosen(value: Any, where: str) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise _wrong(where, value, f"one of {', '.join(choices)}")
        return value

    return chosen


def _dict_reader(hint: Any, strict: bool) -> Read:
    one = _reader(hint, strict)

    def read_all(value: Any, where: str) -> Any:
        return {
            _text(key, where): one(each, f"{where}.{key[:_MOST_SHOWN]}")
            for key, each in _table(value, where).items()
        }

    return read_all


def _list_reader(kind: type, hint: Any, strict: bool) -> Read:
    one = _reader(hint, strict)

    def read_all(value: Any, where: str) -> Any:
        return kind(
            one(each, f"{where}[{index}]") for index, each in enumerate(_list(value, where))
        )

    return read_all


def _fixed_reader(hints: tuple[Any, ...], strict: bool) -> Read:
    readers = [_reader(each, strict) for each in hints]

    def read_all(value: Any, where: str) -> Any:
        if len(_list(value, where)) != len(readers):
            raise _wrong(where, value, f"{len(readers)} values")
        return tuple(one(each, where) for one, each in zip(readers, value, strict=True))

    return read_all


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, value, "a table")
    return value


def _list(value: Any, where: str) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _wrong(where, value, "a list")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, value, "text")
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, value, "true or false")
    return value


def _whole(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(where, value, "a whole number")
    if abs(value) >= _MOST_WHOLE:
        raise _wrong(where, value, "a whole number of 64 bits")
    return value


def _number(value: Any, where: str) -> float:
    if not _is_number(value) or not math.isfinite(value):
        raise _wrong(where, value, "a finite number")
    return cast("float", value)


def _figure(value: Any, where: str) -> float:
    if not _is_number(value):
        raise _wrong(where, value, "a number")
    return cast("float", value)


def _is_number(value: Any) -> bool:
    """Whether it is a number that a float can be: a whole number may be too large for that."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, float) or abs(value) <= sys.float_info.max


_PLAIN: Final[dict[Any, Read]] = {
    AnyFloat: _figure,
    str: _text,
    bool: _flag,
    int: _whole,
    float: _number,
    Any: lambda value, _: value,
}


def _wrong(where: str, value: object, wanted: str) -> ValueError:
    try:
        shown = repr(value)
    except RecursionError:
        shown = f"a {type(value).__name__} that is nested too deeply"
    short = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"
    return ValueError(f"{where or 'it'} = {short}: not {wanted}")
