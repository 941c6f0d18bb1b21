"""What a change costs: steps per second, and per CPU second, of one checkout over another's.

    python benchmarks/before_after.py --before ../before/.venv/bin/python [--blocks 20]
    python benchmarks/before_after.py --before … --only 'logistic, ring with 3 workers' --seconds 5
    python benchmarks/before_after.py --before … --spec my-run.toml

Each checkout has an environment of its own, whose python imports its own paceline. Both are asked
for the same runs, by turns: a block is one short run of each, and the next block begins with the
other. A machine that slows down, or does other things too, so slows both. The median of the blocks'
ratios is printed with its 95 % interval (of ranks: nothing is supposed of how ratios are spread).
CPU seconds are those of all processes of a run, driver and helper threads included, less those of a
run of a few steps.

A case is met if both of these are. Steps per second are *reached* where the interval reaches what
is wanted, MISSED where none of it does: the clock varies with whatever else the machine does. CPU
seconds per step vary little: they are *kept* where their median rises by no more than the share
that steps per second may lose, and else ROSE. Exit code: 0 if all cases are met.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TENTH = {"subset": "tenth"}
LOGISTIC = {"workload": {"name": "logistic-mnist", **TENTH}, "threads": 1}
LENET = {"workload": {"name": "lenet-mnist", **TENTH}, "threads": 1}
CASES: dict[str, dict[str, Any]] = {
    "logistic, single": LOGISTIC,
    "logistic, ps-async with 3 workers": {**LOGISTIC, "strategy": "ps-async", "num_workers": 3},
    "logistic, ps-sync with 3 workers": {**LOGISTIC, "strategy": "ps-sync", "num_workers": 3},
    "logistic, ring with 2 workers": {**LOGISTIC, "strategy": "ring", "num_workers": 2},
    "logistic, ring with 3 workers": {**LOGISTIC, "strategy": "ring", "num_workers": 3},
    "lenet, ring with 2 workers": {**LENET, "strategy": "ring", "num_workers": 2},
}
LENGTHS = ("steps", "worker_steps", "samples", "epochs", "seconds")
FEW_STEPS = 3
"""Of a run that shows what starting and ending costs."""
SHORT_RUNS = 5
PROBE_S = 1.0
GONE_S = 10.0
"""How long processes of a run may take to be gone when it is over."""


# --- the child's part: runs of one checkout -----------------------------------------------------


def serve() -> None:
    """Carry out the runs that standard input names, one JSON object a line, and tell of each."""
    import paceline

    with paceline.Zygote() as zygote:
        for line in sys.stdin:
            spec = paceline.RunSpec.from_table(json.loads(line))
            before_s = cpu_seconds()
            with tempfile.TemporaryDirectory() as out:
                result = paceline.run(spec, out=out, zygote=zygote)
            told = {
                "steps": result.worker_steps,
                "steps_per_s": result.worker_steps_per_s,
                "cpu_s": cpu_seconds() - before_s,
            }
            print(json.dumps(told), flush=True)


def cpu_seconds() -> float:
    """CPU seconds of this process and all below it, those that are gone included."""
    await_end_of_seats()
    ticks = sum(map(_ticks, (os.getpid(), *_below(os.getpid()))))
    return ticks / os.sysconf("SC_CLK_TCK")


def await_end_of_seats() -> None:
    """Wait until only the zygote is left: a process is counted when its parent has reaped it."""
    deadline_s = time.monotonic() + GONE_S
    while len(_below(os.getpid())) > 1 and time.monotonic() < deadline_s:
        time.sleep(0.02)


def _ticks(pid: int) -> int:
    """What a process used, and what those of its children used that it has reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))


def _below(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(each) for each in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_below(child)]
    return found


# --- the parent's part: blocks by turns ---------------------------------------------------------


@dataclass
class Checkout:
    """A python with its own paceline, that carries out runs when asked."""

    python: str
    environment: dict[str, str] = field(default_factory=lambda: {**os.environ})
    script: str = __file__
    """What carries them out when it is called with --serve."""

    def __post_init__(self) -> None:
        self.environment.pop("PYTHONPATH", None)  # it would put one paceline before the other
        self._process = subprocess.Popen(
            [self.python, self.script, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def run(self, table: dict[str, Any]) -> dict[str, Any]:
        """Carry out a run; what the script tells of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(table) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.python} ended with code {self._process.wait()}")
        told: dict[str, Any] = json.loads(line)
        return told

    def end(self) -> None:
        self._process.communicate(timeout=60)


@dataclass(frozen=True)
class Interval:
    """A median with its 95 % interval."""

    low: float
    median: float
    high: float
    count: int

    @staticmethod
    def of(values: Sequence[float]) -> Interval:
        """Take the interval between two ranks that the median lies in, 19 times of 20."""
        inorder, count = sorted(values), len(values)
        below = num_outside(count)
        return Interval(inorder[below], statistics.median(inorder), inorder[-1 - below], count)

    def verdict(self, wanted: float) -> str:
        """Say whether the whole interval is at least what is wanted, or none of it."""
        if self.low >= wanted:
            return "met"
        return "MISSED" if self.high < wanted else "undecided"

    def line(self, title: str, wanted: float) -> str:
        return f"{title}: {self}; wanted {wanted:.2f}: {self.verdict(wanted)}"

    def __str__(self) -> str:
        return f"{self.median:.4f} ({self.low:.4f} to {self.high:.4f}, n={self.count})"


@dataclass(frozen=True)
class Ratio:
    """What became of a case, after over before."""

    by_clock: Interval
    """Steps per second."""
    by_cpu: Interval
    """Steps per CPU second."""

    def is_reached(self, wanted: float) -> bool:
        return self.by_clock.high >= wanted

    def is_kept(self, wanted: float) -> bool:
        return 1 / self.by_cpu.median - 1 <= 1 - wanted

    def lines(self, case: str, wanted: float) -> Iterator[str]:
        reached = "reached" if self.is_reached(wanted) else "MISSED"
        kept = "kept" if self.is_kept(wanted) else "ROSE"
        most = 100 * (1 - wanted)
        yield f"{case}: steps/s, after over before: {self.by_clock}; wanted {wanted:.2f}: {reached}"
        yield (
            f"{case}: steps per CPU second, after over before: {self.by_cpu}; CPU seconds per step "
            f"may rise by {most:.0f} %: {kept}"
        )
        yield f"{case}: {'met' if self.is_met(wanted) else 'MISSED'}"

    def is_met(self, wanted: float) -> bool:
        return self.is_reached(wanted) and self.is_kept(wanted)


def num_outside(count: int) -> int:
    """How many of so many ordered values lie outside of the median's 95 % interval at each end."""
    tail, below = 1 / 2**count, 0
    while 2 * (below + 1) < count:
        tail += math.comb(count, below + 1) / 2**count
        if tail > 0.025:
            break
        below += 1
    return below


def measure(case: dict[str, Any], sides: Sequence[Checkout], blocks: int, seconds: float) -> Ratio:
    """Run a case by turns; gives after over before, by the clock and by the processors."""
    long = {**case, "worker_steps": steps_for(case, sides[1], seconds)}
    short = {**case, "worker_steps": FEW_STEPS}
    idle_s = [
        statistics.median(side.run(short)["cpu_s"] for _ in range(SHORT_RUNS)) for side in sides
    ]
    by_clock, by_cpu = [], []
    for number in range(blocks):
        told: dict[int, dict[str, float]] = {}
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            told[index] = sides[index].run(long)
        per_s = [told[index]["steps_per_s"] for index in (0, 1)]
        cpu_s = [told[index]["cpu_s"] - idle_s[index] for index in (0, 1)]
        by_clock.append(per_s[1] / per_s[0])
        by_cpu.append(cpu_s[0] / cpu_s[1])
    return Ratio(Interval.of(by_clock), Interval.of(by_cpu))


def steps_for(case: dict[str, Any], side: Checkout, seconds: float) -> int:
    """How many steps of each worker take about so long."""
    probe = side.run({**case, "seconds": PROBE_S})
    workers: int = case.get("num_workers", 1)
    steps_per_s: float = probe["steps_per_s"]
    return max(FEW_STEPS + 1, round(seconds * steps_per_s / workers))


def cases_of(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The runs that were asked for, without a length of their own."""
    cases = {} if arguments.spec else dict(CASES)
    for path in arguments.spec:
        table = tomllib.loads(path.read_text())
        cases[path.stem] = {key: each for key, each in table.items() if key not in LENGTHS}
    if arguments.only:
        cases = {name: case for name, case in cases.items() if name in arguments.only}
    for case in cases.values():
        case.setdefault("record", {"tensorboard": False})
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--before", help="python of the checkout to compare with")
    parser.add_argument("--after", default=sys.executable, help="python of this one")
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a run, about")
    parser.add_argument("--wanted", type=float, default=0.98)
    parser.add_argument("--only", action="append", help="a case, by its name", default=[])
    parser.add_argument("--spec", action="append", type=Path, help="a run of yours", default=[])
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return 0
    if not arguments.before:
        parser.error("--before: which python has the checkout to compare with?")
    if shutil.which(arguments.before) is None:
        parser.error(f"--before: {arguments.before}: no such program")
    sides = [Checkout(arguments.before), Checkout(arguments.after)]
    are_met = True
    for name, case in cases_of(arguments).items():
        ratio = measure(case, sides, arguments.blocks, arguments.seconds)
        print(*ratio.lines(name, arguments.wanted), sep="\n", flush=True)
        are_met &= ratio.is_met(arguments.wanted)
    for side in sides:
        side.end()
    return 0 if are_met else 1


if __name__ == "__main__":
    sys.exit(main())
