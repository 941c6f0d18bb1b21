"""Which run of a study a folder holds, told by the table of its spec: nothing that it names is run.

Fields that a table does not have, being of an earlier version, have their defaults: those of the
spec itself, and of parts that are our own. What a class of somebody else's would fill in is known
to its code alone, which looking at a run does not import.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from paceline.catalogue import Catalogue
from paceline.description import Description
from paceline.parts import INNER, PARTS, Record
from paceline.spec import RunSpec


def key_of(spec: RunSpec) -> str:
    """Tell a run by what was asked for, every field: the same spec is the same run."""
    return key_of_table(tomllib.loads(spec.toml()))


def key_of_table(table: Mapping[str, Any]) -> str:
    """Tell it by the table of a spec that was written earlier, perhaps by an earlier version."""
    filled = {**_defaults(cast("Any", RunSpec)), **table}
    filled["record"] = _over(_defaults(cast("Any", Record)), filled.get("record"))
    for part, catalogue in PARTS.items():
        filled[part] = _filled(catalogue, filled.get(part), INNER.get(part, {}))
    text = json.dumps(filled, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _filled(catalogue: Catalogue, value: object, inner: Mapping[str, Catalogue]) -> object:
    """Give a part of ours all its fields; any other is left as it is."""
    name = value.get("name") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(name, str) or name not in catalogue.entries:
        return value
    cls, fixed = catalogue.find(name)
    filled = {**_defaults(cast("Any", cls)), **fixed, **value}
    for key, others in inner.items():
        filled[key] = _filled(others, filled.get(key), {})
    return filled


def _over(defaults: Mapping[str, Any], value: object) -> object:
    return {**defaults, **value} if isinstance(value, Mapping) else value


@cache
def _defaults(cls: Any) -> Mapping[str, Any]:
    """The fields of a class that need not be given, as TOML has them."""
    fields = {each.name: each for each in dataclasses.fields(cls)}
    known = {
        name: each.default_factory() if callable(each.default_factory) else each.default
        for name, each in fields.items()
    }
    return {
        name: _as_toml(value)
        for name, value in known.items()
        if value is not None and value is not dataclasses.MISSING
    }


def _as_toml(value: object) -> Any:
    if isinstance(value, Description):
        return {key: _as_toml(each) for key, each in value.table().items()}
    if isinstance(value, tuple):
        return [_as_toml(each) for each in value]
    return str(value) if isinstance(value, Path) else value
