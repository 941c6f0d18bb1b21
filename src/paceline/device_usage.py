"""How busy a node's replayed devices were over time: what CPU is where compute is real.

Told by the workers' own rows: each covers a stretch of time, and says how much of it was computing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = dict[str, Any]
Stretch = tuple[float, float, float]
"""From when to when, and which part of it the device computed."""


def with_device_usage(
    nodes: Sequence[Row], steps: Sequence[Row], seats: Mapping[str, Sequence[str]]
) -> list[Row]:
    """Add to each sample of a node how busy its devices were since the one before."""
    stretches = {
        seat: _stretches([row for row in steps if row["seat"] == seat])
        for seat in {row["seat"] for row in steps}
    }
    before_s: dict[str, float] = {}
    made = []
    for row in nodes:
        node, now_s = row["node"], row["time_s"]
        devices = [stretches[seat] for seat in seats[node] if seat in stretches]
        busy = [_busy_share(each, before_s.get(node, 0.0), now_s) for each in devices]
        percent = 100 * sum(busy) / len(busy) if busy else None
        made.append({**row, "device_busy_percent": percent})
        before_s[node] = now_s
    return made


def last_busy_percent(rows: Sequence[Row]) -> float | None:
    """Say how busy devices were lately, from the last row of each worker."""
    spans = [[row[key] for key in ("compute_s", "load_s", "exchange_s")] for row in rows]
    shares = [100 * each[0] / sum(each) for each in spans if sum(each) > 0]
    return sum(shares) / len(shares) if shares else None


def _stretches(rows: Sequence[Row]) -> list[Stretch]:
    stretches, from_s = [], 0.0
    for row in rows:
        until_s = row["time_s"]
        if until_s > from_s:
            share = min(1.0, row["compute_s"] / (until_s - from_s))
            stretches.append((from_s, until_s, share))
        from_s = until_s
    return stretches


def _busy_share(stretches: Sequence[Stretch], from_s: float, until_s: float) -> float:
    """Which part of a time was spent computing, each stretch's computing spread over it."""
    if until_s <= from_s:
        return 0.0
    busy_s = sum(
        share * max(0.0, min(end_s, until_s) - max(begin_s, from_s))
        for begin_s, end_s, share in stretches
    )
    return busy_s / (until_s - from_s)
