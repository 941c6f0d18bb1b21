"""What measuring costs: worker steps a second observed over unobserved.

    python benchmarks/observer_cost.py [--repetitions 3] [--seconds 60]
    python benchmarks/observer_cost.py --whole [--repetitions 7]

Two runs of the same spec differ by more than what is looked for. So the monitors of one run are
stopped (SIGSTOP) and let go on by turns, every second or two, and what its workers did meanwhile is
compared: windows without beside windows with, the two in changing order. With --whole, whole runs
are compared instead, with and without monitors and records.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl
from ratios import Ratio, alternate

import paceline
from paceline.engine.progress import RunView
from paceline.strategies.all_reduce.describe import Ring
from paceline.strategies.base import Strategy
from paceline.strategies.local import Single, Solo
from paceline.strategies.parameter_server.describe import PsSync
from paceline.workloads.base import Workload
from paceline.workloads.mnist import LenetMnist, LogisticMnist

CASES: dict[str, tuple[Workload, Strategy, int, int, float]] = {
    # workload, strategy, workers, steps of each, wanted
    "logistic, single": (LogisticMnist(), Single(), 1, 12_000, 0.98),
    "logistic, solo with 2 workers": (LogisticMnist(), Solo(), 2, 12_000, 0.98),
    "logistic, ring with 2 workers": (LogisticMnist(), Ring(), 2, 8_000, 0.98),
    "logistic, ps-sync with 2 workers": (LogisticMnist(), PsSync(), 2, 6_000, 0.98),
    "lenet, single": (LenetMnist(), Single(), 1, 1_200, 0.99),
}
UNSEEN = paceline.Record(monitor=False, steps=False, tensorboard=False)
WINDOW_S = 1.0
"""Two of them together are shorter than a seat may stand still."""
PATTERN = (True, False, False, True)
"""Whether monitors watch, window by window: neither way gains by a machine that slows down."""


@dataclass
class Turns:
    """Stops the monitors of a run and lets them go on, by its training clock."""

    until_s: float
    changes: list[tuple[float, bool]] = field(default_factory=list)
    """When a window began, and whether monitors watched in it."""

    def look(self, view: RunView) -> None:
        if view.phase != "training" and not self.changes:
            return
        index = int(view.time_s // WINDOW_S)
        ends = view.phase != "training" or view.time_s >= self.until_s
        watches = ends or PATTERN[index % len(PATTERN)]
        if not self.changes or self.changes[-1][1] != watches:
            for pid in monitors():
                os.kill(pid, signal.SIGCONT if watches else signal.SIGSTOP)
            self.changes.append((view.time_s, watches))

    def windows(self) -> Iterator[tuple[float, float, bool]]:
        for (begin_s, watches), (end_s, _) in zip(self.changes, self.changes[1:], strict=False):
            yield begin_s, end_s, watches


def monitors() -> list[int]:
    """The processes of this one's that print into a monitor's log."""
    logs = {pid: Path(f"/proc/{pid}/fd/1").readlink() for pid in _below(os.getpid())}
    return [pid for pid, log in logs.items() if log.name.startswith("monitor")]


def _below(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _below(child)


def _spec(name: str, record: paceline.Record, **length: float) -> paceline.RunSpec:
    workload, strategy, num_workers, *_ = CASES[name]
    return paceline.RunSpec(
        workload=workload,
        strategy=strategy,
        num_workers=num_workers,
        threads=1,
        record=record,
        **length,  # type: ignore[arg-type]
    )


def by_turns(name: str, seconds: float) -> tuple[float, float]:
    """Worker steps a second while monitors watched, and while they did not, in one run."""
    turns = Turns(until_s=seconds - WINDOW_S)
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(
            _spec(name, paceline.Record(), seconds=seconds), out=out, watch=turns.look
        )
        rows = pl.read_parquet(next(Path(out).glob("*/steps.parquet")))
    assert result.status == "finished"
    windows = list(turns.windows())
    if not any(watches for *_, watches in windows) or all(watches for *_, watches in windows):
        raise SystemExit(f"no monitor was stopped: {seconds:g} s are too short")
    return rate_in(rows, windows, watched=True), rate_in(rows, windows, watched=False)


def rate_in(
    rows: pl.DataFrame, windows: Sequence[tuple[float, float, bool]], *, watched: bool
) -> float:
    """Steps of all rows that lie within such windows, over the time they took."""
    chosen = [(begin_s, end_s) for begin_s, end_s, watches in windows if watches == watched]
    steps, spent_s = 0.0, 0.0
    for (_,), of_seat in rows.sort("time_s").group_by("seat"):
        for begin_s, end_s in chosen:
            inside = of_seat.filter(pl.col("time_s").is_between(begin_s, end_s))
            steps += inside["worker_steps"][-1] - inside["worker_steps"][0]
            spent_s += inside["time_s"][-1] - inside["time_s"][0]
    return steps / spent_s


def worker_steps_per_s(name: str, record: paceline.Record) -> float:
    steps = CASES[name][3]
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(_spec(name, record, worker_steps=steps), out=out)
    assert result.worker_steps_per_s is not None
    return result.worker_steps_per_s


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="of a run whose monitors rest")
    parser.add_argument("--whole", action="store_true", help="compare whole runs")
    arguments = parser.parse_args()
    all_met = True
    for name, (*_, wanted) in CASES.items():
        title = f"{name}: worker steps/s observed over unobserved"
        if arguments.whole:
            ratio = alternate(
                title,
                partial(worker_steps_per_s, name, paceline.Record()),
                partial(worker_steps_per_s, name, UNSEEN),
                arguments.repetitions,
            )
        else:
            pairs = [by_turns(name, arguments.seconds) for _ in range(arguments.repetitions)]
            ratio = Ratio(title, *zip(*pairs, strict=True))
        print(ratio.line(wanted), flush=True)
        all_met &= ratio.is_met(wanted)
    return 0 if all_met else 1


if __name__ == "__main__":
    sys.exit(main())
