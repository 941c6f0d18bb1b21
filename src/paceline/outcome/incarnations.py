"""What the rows of workers tell, of which each may have been started several times: totals, the
steady rate, the last tenth of the steps.
"""

from __future__ import annotations

from typing import Any, Final

from paceline.outcome.results import WorkerTotals

Row = dict[str, Any]

# The part of the time that a steady rate leaves out.
_TENTH: Final = 0.1


def last_of_earlier(rows: list[Row], num_last: int) -> list[Row]:
    """Give the last row of each earlier incarnation of a seat: each counts from 0 again.

    The newest may have said in its account that it made `num_last` steps, and have written no row.
    """
    following = [row["worker_steps"] - row["count"] for row in rows[1:]] + [num_last]
    pairs = zip(rows, following, strict=False)
    return [row for row, began in pairs if began < row["worker_steps"]]


def steps_of_newest(worker: WorkerTotals, steps: list[Row]) -> int:
    """How many steps the newest incarnation of a worker made, of which its last rows tell."""
    rows = [row["worker_steps"] for row in steps if row["seat"] == worker.name]
    return rows[-1] if rows else worker.worker_steps


def together(said: int | None, before: list[Row], field: str) -> int | None:
    """Add what earlier incarnations counted to what the newest one says."""
    counted = [row[field] for row in before if row.get(field) is not None]
    return said if said is None else said + sum(counted)


def tenths_in_tail(row: Row, num_steps: int) -> int:
    """How many of a row's steps are among the last tenth of all; ten times as many, to be whole."""
    count: int = row["count"]
    end: int = row["worker_steps"]
    return max(0, min(10 * count, 10 * end - 9 * num_steps))


def steady_rate(steps: list[Row], train_s: float | None) -> float | None:
    """Samples per second of all workers, the first tenth of the time left out."""
    if not train_s:
        return None
    rate = 0.0
    for seat in {row["seat"] for row in steps}:
        rows = [row for row in steps if row["seat"] == seat]
        late = [row for row in rows if row["time_s"] >= _TENTH * train_s]
        elapsed_s = late[-1]["time_s"] - late[0]["time_s"] if late else 0.0
        if elapsed_s <= 0:
            return None
        before = last_of_earlier(late, late[-1]["worker_steps"])
        made = late[-1]["samples"] - late[0]["samples"] + sum(row["samples"] for row in before)
        rate += made / elapsed_s
    return rate or None
