"""`criteo-sparse`: how long each operator of a gradient takes, of a dense model and of rows."""

from __future__ import annotations

from typing import Final

import polars

from paceline.exhibits import drawing
from paceline.exhibits.palette import COLOURS, OTHERS
from paceline.exhibits.values import Column, Figure, Table
from paceline.studies import charts
from paceline.studies.criteo_gradient import operator_ms
from paceline.studies.evidence import Evidence

# The untitled report, table 1: ms at batch 10.
OPERATORS: Final = {
    "forward sparse-dense product": "2.02",
    "elementwise steps": "0.009 to 0.03",
    "backward sparse-dense product": "80.91",
    "sum over the batch": "42.45",
}
_PROFILED: Final = (
    "Sync, worker 0, batch 20: time within each operator itself, of a step, by torch's profiler."
)
_MOST_OPERATORS: Final = 6


def operators(evidence: Evidence) -> Table:
    """Time of each operator of a gradient, beside the untitled report's."""
    ours = {name: _operators(name, evidence) for name in ("dense", "resources")}
    rows = [
        {"operator": name, "dense": ours["dense"].get(name), "sparse": ours["resources"].get(name)}
        for name in dict.fromkeys([*ours["dense"], *ours["resources"]])
    ]
    rows += [
        {"operator": f"untitled report: {name}", "said": said} for name, said in OPERATORS.items()
    ]
    columns = [
        Column(name="operator", label="operator"),
        Column(name="dense", label="dense model, here", unit="ms", form=".3f"),
        Column(name="sparse", label="row-sparse, here", unit="ms", form=".3f"),
        Column(name="said", label="untitled report, batch 10 (ms)", published=True),
    ]
    title = "Profile of one gradient (the untitled report, table 1)"
    shown = [evidence.first(group, strategy="ps-sync") for group in ours]
    return charts.side_by_side("operators", title, rows, columns, note=_PROFILED, runs=shown)


def profile(evidence: Evidence) -> Figure:
    """Where the time of a gradient goes, with the dense model and with rows."""
    rows = [
        {"run": how, "operator": operator, "ms": ms}
        for how, group in (("dense model", "dense"), ("row-sparse", "resources"))
        for operator, ms in _operators(group, evidence).items()
    ]
    parts = dict.fromkeys(str(row["operator"]) for row in rows)
    shades = (*COLOURS.values(), *OTHERS)
    colours = {part: shades[number % len(shades)] for number, part in enumerate(parts)}
    value = Column(name="ms", label="time of a step", unit="ms", form=".3f")
    sides = {"dense model": "ps-sync", "row-sparse": "ps-sync"}
    return charts.figure(
        "profile",
        "Profile of one gradient, batch 20 (the untitled report)",
        polars.DataFrame(rows),
        [Column(name="run", label="run"), Column(name="operator", label="operator"), value],
        lambda frame: drawing.stacked(
            frame, value, by="run", part="operator", parts=colours, strategies=sides
        ),
        caption=_PROFILED,
        runs={"dense": evidence.first("dense"), "sparse": evidence.first("resources")},
    )


def _operators(group: str, evidence: Evidence) -> dict[str, float]:
    """Milliseconds of a worker's step, by operator, the small ones together."""
    times = operator_ms(evidence.first(group, strategy="ps-sync"))
    largest = sorted(times, key=lambda name: -times[name])[:_MOST_OPERATORS]
    shown = {name: times[name] for name in largest}
    return shown | {"all others": sum(times.values()) - sum(shown.values())}
