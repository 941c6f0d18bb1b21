"""How busy a node's replayed devices were over time: what CPU is where compute is real.

Told by the workers' own rows: each covers a stretch of time, and says how much of it was computing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, final

Row = dict[str, Any]


def with_device_usage(
    nodes: Sequence[Row], steps: Sequence[Row], seats: Mapping[str, Sequence[str]]
) -> list[Row]:
    """Add to each sample of a node how busy its devices were since the one before."""
    devices: dict[str, _Device] = {}
    for row in steps:
        devices.setdefault(row["seat"], _Device()).add(row)
    before_s: dict[str, float] = {}
    made = []
    for row in nodes:
        node, now_s = row["node"], row["time_s"]
        its = [devices[seat] for seat in seats[node] if seat in devices]
        busy = [each.busy_share(before_s.get(node, 0.0), now_s) for each in its]
        percent = 100 * sum(busy) / len(busy) if busy else None
        made.append({**row, "device_busy_percent": percent})
        before_s[node] = now_s
    return made


def last_busy_percent(rows: Sequence[Row]) -> float | None:
    """Say how busy devices were lately, from the last row of each worker."""
    spans = [[row[key] for key in ("compute_s", "load_s", "exchange_s")] for row in rows]
    shares = [100 * each[0] / sum(each) for each in spans if sum(each) > 0]
    return sum(shares) / len(shares) if shares else None


@final
class _Device:
    """How much a worker's device had computed by when: straight lines between the rows' ends.

    A row's computing is spread evenly over the time that it covers. Samples are looked up, not
    searched for: a run of hours has many thousands of both.
    """

    def __init__(self) -> None:
        self._times_s = [0.0]
        self._computed_s = [0.0]

    def add(self, row: Row) -> None:
        """Take the next row of the worker; no more is computed in it than it is long."""
        length_s = row["time_s"] - self._times_s[-1]
        if length_s > 0:
            self._times_s.append(row["time_s"])
            self._computed_s.append(self._computed_s[-1] + min(length_s, row["compute_s"]))

    def busy_share(self, from_s: float, until_s: float) -> float:
        """Which part of a time was spent computing."""
        if until_s <= from_s:
            return 0.0
        return (self._computed_by(until_s) - self._computed_by(from_s)) / (until_s - from_s)

    def _computed_by(self, moment_s: float) -> float:
        times_s, computed_s = self._times_s, self._computed_s
        if moment_s >= times_s[-1]:
            return computed_s[-1]
        next_ = max(1, bisect_right(times_s, moment_s))
        last = next_ - 1
        part = (moment_s - times_s[last]) / (times_s[next_] - times_s[last])
        return computed_s[last] + part * (computed_s[next_] - computed_s[last])
