"""A run as a Chrome trace: every seat on one clock, for Perfetto or chrome://tracing.

Workers write about ten rows per second, so a slice is a row: how much of that tenth went
into each phase, not each single step. Where a seat was profiled, its operators follow exactly.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paceline.errors import StoreError
from paceline.reading import frames, untrusted

if TYPE_CHECKING:
    from paceline.outcome.results import Result
    from paceline.store.runs import RunDir

Event = dict[str, Any]
Row = dict[str, Any]

_PHASES: Final = ("load_s", "compute_s", "exchange_s")
# What a node's counters show, and what to divide them by.
_COUNTERS: Final = {"cpu_percent": ("CPU, % of one core", 1), "memory_bytes": ("memory, MB", 1e6)}
_MOST_TRACE_BYTES: Final = 256 * untrusted.MIB
_ROWS_TRACK, _PROFILE_TRACK = 0, 1000


def write_chrome_trace(run: RunDir, result: Result, target: Path) -> None:
    """Write a sealed run as one JSON file."""
    from paceline.store.whole_files import write_atomically

    events = list(_events(run, result))
    told = {"run": result.run, "strategy": result.strategy, "workload": result.workload}
    if result.verdict is not None:
        told["verdict"] = result.verdict.sentence
    trace = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": told}
    write_atomically(target, json.dumps(trace, allow_nan=False))


def _events(run: RunDir, result: Result) -> Iterator[Event]:
    workers = [each.name for each in result.workers]
    servers = [each.name for each in result.servers]
    nodes = [each.name for each in result.nodes]
    numbers = {name: number for number, name in enumerate([*workers, *servers, *nodes], 1)}
    for name, number in numbers.items():
        yield _named("process_name", number, _ROWS_TRACK, name)
        yield _sorted(number)
    for seat, rows in _grouped(run.steps, frames.STEPS, "seat"):
        yield _named("thread_name", numbers[seat], _ROWS_TRACK, "phases, by row")
        yield from _worker_events(numbers[seat], rows)
    for each in result.servers:
        yield _named("thread_name", numbers[each.name], _ROWS_TRACK, "all of the run")
        yield _slice(numbers[each.name], "serves", 0.0, result.train_s or 0.0, asdict(each))
    for node, rows in _grouped(run.nodes, frames.NODES, "node"):
        yield from _node_events(numbers[node], rows)
        yield from _seat_events(numbers, rows)
    for row in frames.read(run.evaluations, frames.EVALUATIONS).to_dicts():
        yield _moment(numbers.get("worker0", 1), "evaluated", row)
    for seat in (*workers, *servers):
        yield from _profile_events(run.seat_trace(seat), numbers[seat])


def _grouped(
    path: Path, columns: Mapping[str, frames.ColumnKind], key: str
) -> Iterator[tuple[str, list[Row]]]:
    found = frames.read(path, columns).to_dicts()
    rows = sorted(found, key=lambda row: (row[key], row["time_s"]))
    for name, group in itertools.groupby(rows, key=lambda row: row[key]):
        yield name, list(group)


def _worker_events(pid: int, rows: list[Row]) -> Iterator[Event]:
    """A slice for each row, and in it one for each phase, in the order of a step."""
    ended_s = 0.0
    for row in rows:
        phases = {name.removesuffix("_s"): row[name] for name in _PHASES}
        began_s = max(ended_s, row["time_s"] - max(sum(phases.values()), 1e-6))
        about = {"loss": _finite(row["loss_mean"]), "global_steps": row["global_steps"], **phases}
        yield _slice(pid, _steps(row["count"]), began_s, row["time_s"] - began_s, about)
        at_s = began_s
        for name, seconds in phases.items():
            shown_s = min(seconds, row["time_s"] - at_s)
            yield _slice(pid, name, at_s, shown_s, {"seconds": seconds})
            at_s += shown_s
        ended_s = row["time_s"]


def _finite(value: float | None) -> float | None:
    """JSON has no word for what is no number."""
    return value if value is not None and math.isfinite(value) else None


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _node_events(pid: int, rows: list[Row]) -> Iterator[Event]:
    for before, row in itertools.pairwise([rows[0], *rows]):
        for column, (title, unit) in _COUNTERS.items():
            if row.get(column) is not None:
                yield _counter(pid, title, row["time_s"], row[column] / unit)
        elapsed_s = row["time_s"] - before["time_s"]
        for way in ("disk_read", "disk_written", "net_sent", "net_received"):
            column = f"{way}_bytes"
            if elapsed_s > 0 and row.get(column) is not None and before.get(column) is not None:
                rate = (row[column] - before[column]) / elapsed_s / 1e6
                title = f"{way.replace('_', ' ')}, MB/s"
                yield _counter(pid, title, row["time_s"], rate)


def _seat_events(numbers: dict[str, int], rows: list[Row]) -> Iterator[Event]:
    """The processor time of each seat, as its node's monitor saw it."""
    for row in rows:
        for each in row.get("seats") or ():
            if each["seat"] in numbers:
                title = _COUNTERS["cpu_percent"][0]
                yield _counter(numbers[each["seat"]], title, row["time_s"], each["cpu_percent"])


def _profile_events(path: Path, pid: int) -> Iterator[Event]:
    """What torch's profiler saw of a seat, on threads below its rows."""
    if not path.exists():
        return
    tracks: dict[Any, int] = {}
    try:
        events = untrusted.read_json(path, _MOST_TRACE_BYTES)["traceEvents"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    for event in events:
        if event.get("ph") not in {"X", "s", "f", "i"}:
            continue
        thread = event.get("tid")
        if thread not in tracks:
            tracks[thread] = _PROFILE_TRACK + len(tracks)
            yield _named("thread_name", pid, tracks[thread], f"operators, {thread}")
        yield {**event, "pid": pid, "tid": tracks[thread]}


def _named(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _sorted(pid: int) -> Event:
    about = {"sort_index": pid}
    return {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": about}


def _slice(pid: int, name: str, began_s: float, seconds: float, about: dict[str, Any]) -> Event:
    return {
        "ph": "X",
        "name": name,
        "pid": pid,
        "tid": _ROWS_TRACK,
        "ts": began_s * 1e6,
        "dur": max(0.0, seconds) * 1e6,
        "args": about,
    }


def _counter(pid: int, title: str, time_s: float, value: float) -> Event:
    return {"ph": "C", "name": title, "pid": pid, "ts": time_s * 1e6, "args": {"value": value}}


def _moment(pid: int, name: str, row: Row) -> Event:
    ts = row["time_s"] * 1e6
    about = {key: _finite(value) for key, value in row.items()}
    return {"ph": "i", "name": name, "pid": pid, "tid": 0, "ts": ts, "s": "g", "args": about}
