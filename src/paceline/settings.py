"""The fields of a spec by their dotted names, and how those of several sources become one table.

A spec file, the options of a command, what a comparison varies, what a study sets: each is a
source. `merged` is the one rule by which a later source stands over an earlier one. Within a
source the order of fields means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from paceline.errors import Problem, SpecError

LENGTHS: Final = ("steps", "worker_steps", "samples", "epochs", "seconds")
"""The fields that say how long a run is; a run has one of them."""
PARTS: Final = ("workload", "strategy", "cluster", "optimizer", "optimizer.schedule")
"""The fields that have a name and fields of their own; the name alone may be given for all."""
# What a workload chooses where nobody else does.
_CHOSEN: Final = ("batch", "optimizer")

Fields = Mapping[str, Any]
"""Values by the dotted names of their fields, such as `optimizer.lr`."""


@final
@dataclass(frozen=True)
class Asked:
    """What somebody asks for: a base, such as a spec file, and the fields given over it.

    A spec file has every field, also those that its workload chose. So another workload drops its
    batch and its optimizer.
    """

    base: Mapping[str, Any]
    """Nested tables, or live descriptions."""
    fields: Fields = field(default_factory=dict)

    def table(self, varied: Fields | None = None) -> dict[str, Any]:
        """Give the table of a spec; `varied` are given with the fields, in place of the same."""
        base, given = flat(self.base), merged({**self.fields, **(varied or {})})
        if _is_another("workload", base, given):
            base = {key: value for key, value in base.items() if not _is_in(key, _CHOSEN)}
        return nested(merged(base, given))


def merged(*sources: Fields) -> dict[str, Any]:
    """Put sources over one another, the later over the earlier.

    - A length takes the place of every earlier length.
    - Another name for a part drops the earlier part's fields.
    - One value for all takes the place of earlier values for each.
    """
    made: dict[str, Any] = {}
    for source in sources:
        given = {_full_name(key, value): value for key, value in source.items()}
        dropped = set(_dropped(made, given))
        made = {key: value for key, value in made.items() if key not in dropped} | given
    return made


def _full_name(key: str, value: object) -> str:
    """`strategy = "ring"` says the same as `strategy.name = "ring"`."""
    return f"{key}.name" if key in PARTS and isinstance(value, str) else key


def _dropped(kept: Fields, given: Fields) -> Iterator[str]:
    """Say which of the fields so far a later source leaves nothing of."""
    if any(key in given for key in LENGTHS):
        yield from LENGTHS
    replaced = [*given, *(part for part in PARTS if _is_another(part, kept, given))]
    yield from (key for key in kept if _is_in(key, replaced))


def _is_in(key: str, others: Sequence[str]) -> bool:
    """Whether it is one of these fields, or a field of one of them."""
    return any(key == each or key.startswith(f"{each}.") for each in others)


def _is_another(part: str, kept: Fields, given: Fields) -> bool:
    name = given.get(f"{part}.name")
    return name is not None and (part in kept or kept.get(f"{part}.name", name) != name)


def flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Name the fields of nested tables with dots."""
    return dict(_dotted(table, ""))


def _dotted(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        # Keys with dots of their own could not be told from fields of fields.
        if isinstance(value, Mapping) and value and not any("." in each for each in value):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def nested(fields: Fields) -> dict[str, Any]:
    """Make nested tables of dotted names. Raises `SpecError` where two fields contradict."""
    table: dict[str, Any] = {}
    for key, value in fields.items():
        _put(table, key, value)
    return table


def _put(table: dict[str, Any], key: str, value: object) -> None:
    *path, last = key.split(".")
    for each in path:
        inner = table.get(each)
        if not isinstance(inner, Mapping | None):
            raise _clash(key, value, f"{each} = {inner!r} is given too")
        table[each] = table = dict(inner or {})
    if isinstance(table.get(last), Mapping):
        raise _clash(key, value, f"{', '.join(table[last])} of it are given too")
    table[last] = value


def _clash(key: str, value: object, what: str) -> SpecError:
    """One value for all and values for some: which was meant cannot be told."""
    return SpecError([Problem(key, value, f"{what}: give one value for all, or one for each")])
