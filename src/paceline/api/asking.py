"""What may be asked for: a workload, by whatever names it, and fields of the spec over it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.description import Description
from paceline.errors import Problem, SpecError
from paceline.settings import Asked, flat
from paceline.spec import RunSpec, read_toml
from paceline.workloads.base import Workload

What = RunSpec | Workload | str | Path
"""A spec, a workload, a workload's name, `file.py:Class`, or the path of a spec's TOML file."""


def asked(what: What, settings: Mapping[str, Any]) -> Asked:
    """Say what is asked for; `settings` are fields of a spec, parts as a name or as a table.

    Where a field of a live part is set, the others of it stay.
    """
    given = flat({key: value for key, value in settings.items() if value is not None})
    base = {
        key: _opened(part) if any(field.startswith(f"{key}.") for field in given) else part
        for key, part in base_of(what).items()
    }
    return Asked(base, given)


def base_of(what: What) -> dict[str, Any]:
    """Give the table that fields are put over."""
    if isinstance(what, RunSpec):
        return {key: value for key, value in what.values().items() if value is not None}
    if isinstance(what, Workload):
        return {"workload": what}
    if not isinstance(what, str | Path):
        reason = "neither a RunSpec, a workload, nor the name of one"
        raise SpecError([Problem("workload", what, reason)])
    is_file = str(what).endswith(".toml")
    return read_toml(Path(what)) if is_file else {"workload": {"name": str(what)}}


def _opened(part: object) -> Any:
    """Give a live part as a table, and so each part of it."""
    if not isinstance(part, Description):
        return part
    return {key: _opened(value) for key, value in part.table().items()}
