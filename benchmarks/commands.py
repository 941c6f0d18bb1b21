"""How long commands that only look take, over starting Python: `--help`, `ls` and `show`.

    python benchmarks/commands.py [--repetitions 10] [--runs 20]

Each is the median of differences to `python -c pass` in the same repetition; all take turns. The
runs are real ones. `show` is tried on a run that was evaluated once, and on one that was evaluated
several times, whose table of evaluations polars reads.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from trials import Trials, spread, table, take_turns

import paceline
from paceline.clusters.zygote import Zygote
from paceline.workloads.mnist import LogisticMnist

EMPTY = "python -c pass"
MOST_MORE_S = {"--help": 0.3, "ls": 0.5, "show last": 0.5, "show, several evaluations": 0.5}


def make_runs(num_runs: int, out: Path) -> None:
    """Carry out short runs; the first is the one that is evaluated several times."""
    with Zygote() as zygote:
        for number in range(num_runs):
            workload = LogisticMnist(subset="tenth")
            eval_every = 20 if number == 0 else None
            spec = paceline.RunSpec(workload=workload, epochs=1, eval_every=eval_every)
            paceline.run(spec, out=out, zygote=zygote)


def commands(out: Path) -> dict[str, list[str]]:
    """Every command that is timed, by its name."""
    ours = [sys.executable, "-m", "paceline"]
    first = min(out.iterdir())
    return {
        EMPTY: [sys.executable, "-c", "pass"],
        "--help": [*ours, "--help"],
        "ls": [*ours, "ls", "--out", str(out)],
        "show last": [*ours, "show", "last", "--out", str(out)],
        "show, several evaluations": [*ours, "show", str(first)],
    }


def taken_s(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def rows_of(trials: Trials) -> list[list[str]]:
    return [[name, *_row(trials, name, most)] for name, most in MOST_MORE_S.items()]


def _row(trials: Trials, name: str, most_s: float) -> list[str]:
    pairs = zip(trials.measured(name), trials.measured(EMPTY), strict=True)
    more = [taken - empty for taken, empty in pairs]
    median = statistics.median(more)
    met = "met" if median <= most_s else "MISSED"
    return [spread(trials.measured(name), 3), spread(more, 3), f"at most {most_s}: {met}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_runs(options.runs, Path(folder))
        timed = commands(Path(folder))
        for command in timed.values():
            taken_s(command)  # so that every file was read once
        trials = take_turns(
            list(timed), lambda name: taken_s(timed[name]), options.repetitions, lambda _: None
        )
    print(f"{EMPTY}: {spread(trials.measured(EMPTY), 3)} s")
    print(table(["paceline", "seconds", f"more than {EMPTY}", "wanted"], rows_of(trials)))


if __name__ == "__main__":
    main()
