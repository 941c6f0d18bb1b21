"""The tables of a report on runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from paceline.exhibits.values import Column, Table, table_of
from paceline.outcome.results import Verdict
from paceline.reporting.level import Group
from paceline.reporting.metric_columns import tested_columns, tested_value
from paceline.reporting.ranking import speed_up
from paceline.reporting.refused import any_refused, refused_share
from paceline.reporting.sides import Measure, Side, differing, short
from paceline.store.stored import IN_PART, StoredRun, labels_of

MB: Final = 1e-6
SIDE: Final = Column(name="side", label="strategy")
NODE: Final = Column(name="node", label="node")


def comparison(
    sides: Sequence[Side], groups: Sequence[Group], labels: tuple[str, ...] = ()
) -> Table:
    """One row a side: how long, how fast, how well, at what cost."""
    times = _time_columns(groups)
    tested = tested_columns(sides)
    rows = [_comparison_row(side, sides, groups, times, tested) for side in sides]
    columns = [
        SIDE,
        Column(name="workers", label="workers", form=","),
        *(
            _repeated(_fine_enough(each, rows))
            for each in (*times, *_MEASURED, *tested.values(), *_COSTS)
        ),
        Column(name="verdict", label="verdict"),
        Column(name="runs", label="runs"),
        Column(name="label", label="how computed"),
    ]
    told = {row["label"] for row in rows}
    differ = len(told) > 1 or any(IN_PART in each for each in told)
    kept = [
        each for each in columns if _is_told(each.name, rows) and (each.name != "label" or differ)
    ]
    return table_of("comparison", "The comparison", rows, kept, note=_NOTE, labels=labels)


_NOTE = (
    "Medians of the finished runs; ± is half the range from the lowest to the highest of them. "
    "Speed-up is rows per second against one worker of the same workload and device. Busiest node: "
    "bytes sent and received by the node, or else the seat, with the most. A dash: not known."
)
_RATES = (
    Column(name="steps_per_s", label="steps/s", form=",.0f"),
    Column(name="samples_per_s", label="rows/s", form=",.0f"),
)
_SLOW = 20
_MEASURED = (
    Column(name="train_s", label="training", unit="s", form=".2f"),
    *_RATES,
    Column(name="speed_up", label="speed-up", unit="times", form=".2f"),
    Column(name="final_loss", label="final loss", form=".4f"),
)
_COSTS = (
    Column(name="refused", label="refused", unit="% of steps", form=".1f", scale=100),
    Column(name="staleness", label="staleness", form=".2f"),
    Column(name="busiest_bytes", label="busiest node", unit="MB", form=",.1f", scale=MB),
)


def _time_columns(groups: Sequence[Group]) -> list[Column]:
    """One column for each level to which some sides are timed."""
    sticks = [group.stick for group in groups]
    words = dict.fromkeys(each.words for each in sticks if each.kind in {"target", "level"})
    return [
        Column(name=f"time_{number}_s" if number else "time_s", label=each, unit="s", form=".2f")
        for number, each in enumerate(words)
    ]


def _fine_enough(column: Column, rows: Sequence[dict[str, Any]]) -> Column:
    """Write a rate in hundredths where whole numbers would leave little of it, or nothing."""
    if column not in _RATES:
        return column
    known = [row[column.name] for row in rows if row[column.name] is not None]
    return replace(column, form=",.2f") if known and min(known) < _SLOW else column


def _repeated(column: Column) -> Column:
    return replace(column, spread=f"{column.name}_spread")


def _comparison_row(
    side: Side,
    sides: Sequence[Side],
    groups: Sequence[Group],
    times: Sequence[Column],
    tested: Mapping[str, Column],
) -> dict[str, Any]:
    (stick,) = (group.stick for group in groups if side in group.sides)
    measured = {
        **{each.name: stick.measure(side) if each.label == stick.words else None for each in times},
        "train_s": side.measure(lambda run: run.result.train_s),
        "steps_per_s": side.measure(steps_per_s),
        "samples_per_s": side.measure(lambda run: run.result.samples_per_s),
        "speed_up": speed_up(side, sides),
        "final_loss": side.measure(lambda run: run.result.final_loss),
        **{
            column.name: side.measure(partial(tested_value, metric=metric))
            for metric, column in tested.items()
        },
        "refused": side.measure(refused_share) if any_refused(sides) else None,
        "staleness": side.measure(_staleness),
        "busiest_bytes": side.measure(busiest_bytes),
    }
    return {
        "side": side.label,
        "workers": side.num_workers,
        **{name: each.median if each else None for name, each in measured.items()},
        **{f"{name}_spread": _half_range(each) for name, each in measured.items()},
        "verdict": verdict_kind(side.shown),
        "runs": _runs(side),
        "label": ", ".join(labels_of(side.runs)),
    }


def _half_range(measure: Measure | None) -> float | None:
    """Of one run the spread is not known."""
    return measure.spread / 2 if measure and measure.count > 1 else None


def _is_told(name: str, rows: Sequence[dict[str, Any]]) -> bool:
    """Leave out a column of which nothing is known, but for those that everybody looks for."""
    optional = {"refused", "staleness", "busiest_bytes", "verdict", "speed_up"}
    return name not in optional or any(row.get(name) not in {None, ""} for row in rows)


def _runs(side: Side) -> str:
    if len(side.finished) == len(side.runs):
        return f"{len(side.runs)}"
    others = ", ".join(dict.fromkeys(run.result.status for run in side.runs if not run.is_finished))
    return f"{len(side.finished)} of {len(side.runs)} ({others})"


def steps_per_s(run: StoredRun) -> float | None:
    """Global steps per second; where nothing is shared, those of all workers."""
    result = run.result
    return result.worker_steps_per_s if result.global_steps is None else result.steps_per_s


def _staleness(run: StoredRun) -> float | None:
    return run.result.staleness.mean if run.result.staleness else None


def busiest_bytes(run: StoredRun) -> float | None:
    """Bytes sent and received at the node that moved most; without links, at the busiest seat."""
    nodes = [
        node.net_sent_bytes + node.net_received_bytes
        for node in run.result.nodes
        if node.net_sent_bytes is not None and node.net_received_bytes is not None
    ]
    if nodes:
        return max(nodes)
    seats = [
        worker.sent_bytes + worker.received_bytes
        for worker in run.result.workers
        if worker.sent_bytes is not None and worker.received_bytes is not None
    ]
    if not seats:
        return None
    servers = len(run.result.servers)
    return max(*seats, sum(seats) / servers) if servers else max(seats)


def verdict_kind(run: StoredRun) -> str:
    verdict = run.result.verdict
    return verdict.kind if verdict else ""


def verdicts(sides: Sequence[Side]) -> Table | None:
    """What held each side up, and the measured shares that it rests on."""
    rows = [
        _verdict_row(side.label, side.shown.result.verdict)
        for side in sides
        if side.shown.result.verdict
    ]
    columns = [
        SIDE,
        Column(name="kind", label="verdict"),
        Column(name="where", label="where"),
        Column(name="sentence", label="in words"),
        Column(name="evidence", label="evidence, % of the time"),
        Column(name="suggestion", label="to try next"),
        Column(name="gain", label="expected gain", unit="times", form=".2f"),
    ]
    return table_of("verdicts", "Verdicts", rows, columns) if rows else None


def _verdict_row(label: str, verdict: Verdict) -> dict[str, Any]:
    shares = (f"{name} {100 * share:.0f}" for name, share in verdict.evidence.items())
    return {
        "side": label,
        "kind": verdict.kind,
        "where": verdict.where,
        "sentence": verdict.sentence,
        "evidence": ", ".join(shares),
        "suggestion": verdict.suggestion,
        "gain": verdict.expected_gain,
    }


def every_run(sides: Sequence[Side]) -> Table:
    """Every run that went into the report, by its folder's name."""
    tested = tested_columns(sides)
    rows = [
        {
            "run": run.name,
            "side": side.label,
            "status": run.result.status,
            "reason": run.result.reason or "",
            "train_s": run.result.train_s,
            "samples_per_s": run.result.samples_per_s,
            "final_loss": run.result.final_loss,
            **{each.name: tested_value(run, metric) for metric, each in tested.items()},
            "seed": run.result.seed,
            "startup_s": run.result.startup_s,
            "steal_s": run.result.steal_s,
            "label": ", ".join(run.labels),
        }
        for side in sides
        for run in side.runs
    ]
    columns = [
        SIDE,
        Column(name="run", label="run"),
        Column(name="status", label="status"),
        Column(name="reason", label="reason"),
        Column(name="train_s", label="training", unit="s", form=".3f"),
        Column(name="samples_per_s", label="rows/s", form=",.0f"),
        Column(name="final_loss", label="final loss", form=".4f"),
        *tested.values(),
        Column(name="seed", label="seed", form="d"),
        Column(name="startup_s", label="start-up", unit="s", form=".2f"),
        Column(name="steal_s", label="stolen", unit="s", form=".2f"),
        Column(name="label", label="how computed"),
    ]
    kept = [each for each in columns if each.name != "reason" or any(row["reason"] for row in rows)]
    return table_of("runs", "Every run", rows, kept)


def settings(sides: Sequence[Side]) -> Table | None:
    """The settings in which sides differ."""
    keys = differing([side.runs[0] for side in sides])
    if not keys:
        return None
    rows = [
        {"side": side.label} | {key: _setting(side.runs[0].settings.get(key)) for key in keys}
        for side in sides
    ]
    columns = [SIDE]
    columns += [Column(name=key, label=key) for key in keys if key != "strategy.name"]
    return table_of("settings", "How the runs differ", rows, columns)


def _setting(value: object) -> str:
    return "" if value is None else short(str(value))


def spread_of(measure: Measure | None) -> dict[str, float | None]:
    """Give a figure and its spread as columns of a table."""
    if measure is None:
        return {"value": None, "low": None, "high": None}
    return {"value": measure.median, "low": measure.low, "high": measure.high}
