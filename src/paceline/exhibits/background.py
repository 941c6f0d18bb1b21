"""What stands behind the numbers of any page: the machine, the versions, the exact specs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from paceline.exhibits.values import Column, Exhibit, Listing, Table, table_of
from paceline.store.stored import StoredRun

_SEED: Final = re.compile(r"^seed = \d+\n", re.MULTILINE)
# More than this many names or values in a line nobody reads.
_MOST_NAMED: Final = 4


def background(runs: Mapping[str, StoredRun]) -> tuple[Exhibit, ...]:
    """Give the machine and versions of some runs, and the exact spec of each, by their labels."""
    return (machine(runs.values()), *_specs(runs)) if runs else ()


def machine(runs: Iterable[StoredRun]) -> Table:
    """What they ran on; where runs differ, all that was found."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for what, value in _facts(run).items():
            found.setdefault(what, []).append(value)
    rows = [
        {"what": what, "value": _span(values) if what == "when" else _different(values)}
        for what, values in found.items()
    ]
    columns = [Column(name="what", label="what"), Column(name="value", label="found")]
    return table_of("machine", "Versions and machine", rows, columns)


def _facts(run: StoredRun) -> dict[str, str]:
    """What is known of the machine when a run began, in words."""
    seen = run.environment
    cpu, total_bytes = _table(seen, "cpu"), _table(seen, "memory").get("total_bytes")
    versions = {name: each for name, each in _table(seen, "versions").items() if each}
    facts = {
        "machine": seen.get("hostname"),
        "processor": cpu.get("model"),
        "cores": cpu.get("usable_cores") or cpu.get("logical_cores"),
        "memory": _gigabytes(total_bytes),
        "virtualisation": seen.get("virtualisation"),
        "kernel": seen.get("kernel"),
        "TCP congestion control": seen.get("tcp_congestion_control"),
        "when": seen.get("captured_at_utc"),
        "versions": ", ".join(f"{name} {each}" for name, each in versions.items()),
        "commit": _commit(seen),
        "cluster": run.result.cluster,
        "data": run.result.data,
    }
    return {
        what: f"{value:g}" if isinstance(value, float) else str(value)
        for what, value in facts.items()
        if value
    }


def _commit(seen: Mapping[str, Any]) -> str | None:
    git = _table(_table(seen, "git"), "paceline")
    commit = git.get("commit")
    return f"{commit}{' with changes' if git.get('dirty') else ''}" if commit else None


def _table(seen: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """What a machine wrote of itself may be of another version, or damaged."""
    found = seen.get(key)
    return found if isinstance(found, dict) else {}


def _gigabytes(num_bytes: object) -> str | None:
    return f"{num_bytes / 1e9:.1f} GB" if isinstance(num_bytes, int) and num_bytes else None


def _different(values: list[str]) -> str:
    return _named(list(dict.fromkeys(values)), "; ")


def _span(moments: list[str]) -> str:
    first, last = min(moments), max(moments)
    return first if first == last else f"{first} to {last}"


def _specs(runs: Mapping[str, StoredRun]) -> list[Listing]:
    """Every spec once, whoever shares it; of those that differ in the seed alone, the first."""
    labels: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for label, run in runs.items():
        text = run.folder.spec_text()
        alike = _SEED.sub("", text)
        texts.setdefault(alike, text)
        labels.setdefault(alike, []).append(label)
    return [
        Listing(name=f"spec-{number}", title=f"Spec: {_named(whose, ', ')}", text=texts[alike])
        for number, (alike, whose) in enumerate(labels.items())
    ]


def _named(values: list[str], between: str) -> str:
    others = len(values) - _MOST_NAMED
    more = f"{between}and {others} more" if others > 0 else ""
    return f"{between.join(values[:_MOST_NAMED])}{more}"
