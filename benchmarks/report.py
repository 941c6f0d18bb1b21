"""How long a report of 24 runs takes to write, how large it is, and how soon it starts.

    python benchmarks/report.py [--repetitions 5] [--seconds 10]

Four strategies train for some seconds each; the runs are then laid out six times under other
batch sizes, so that 24 sides with as many rows as real ones have are compared. How soon it starts
is told by two times: that of `--help`, and that from the start of Python until all runs are read
and the report is imported, before its page is made and figures are drawn.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STRATEGIES = ("single", "ps-async", "ps-sync", "ring")
COPIES = 6
MOST_WRITE_S = 5.0
MOST_START_S = 1.0
MOST_BYTES = 8_000_000
START = """
from pathlib import Path
from paceline.store.stored import runs_of
runs_of(["runs"], Path("runs"))
import paceline.reporting
"""


def prepare(folder: Path, seconds: float) -> None:
    """Train once per strategy, then copy each run under other batch sizes."""
    options = ["--strategies", ",".join(STRATEGIES), "--seconds", str(seconds), "--workers", "3"]
    quick = ["--set", "workload.subset=tenth", "--eval-every", "500", "--to", "first"]
    once = ["logistic-mnist", "--repeat", "1", *options, *quick]
    command = [sys.executable, "-m", "paceline", "compare", *once]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    for run in list((folder / "runs").iterdir()):
        for number in range(1, COPIES):
            copy = run.with_name(f"{run.name}{number}")
            shutil.copytree(run, copy)
            spec = copy / "spec.toml"
            spec.write_text(spec.read_text().replace("batch = 75", f"batch = {75 + number}"))


def timed(*command: str, cwd: Path) -> tuple[float, float]:
    """Seconds by the clock, and of processor time of all processes."""
    began, used = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *command], check=True, cwd=cwd, capture_output=True)
    after = os.times()
    cpu = after.children_user + after.children_system - used.children_user - used.children_system
    return time.perf_counter() - began, cpu


def say(title: str, values: list[float], most: float | None = None) -> None:
    median = statistics.median(values)
    wanted = ""
    if most is not None:
        wanted = f"; at most {most:g} s wanted: {'met' if median <= most else 'MISSED'}"
    spread = f"{min(values):.2f} to {max(values):.2f}, n={len(values)}"
    print(f"{title}: {median:.2f} s ({spread}){wanted}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        prepare(folder, given.seconds)
        report = ("-m", "paceline", "report", "runs", "--to", "report")
        timed(*report, cwd=folder)  # bundles the scripts, once for a machine
        starts = [timed("-c", START, cwd=folder) for _ in range(given.repetitions)]
        helps = [timed(*report[:3], "--help", cwd=folder) for _ in range(given.repetitions)]
        writes = [timed(*report, cwd=folder) for _ in range(given.repetitions)]
        say("paceline report --help", [wall for wall, _ in helps], MOST_START_S)
        say("imported and 24 runs read", [wall for wall, _ in starts], MOST_START_S)
        say("a report of 24 runs, written", [wall for wall, _ in writes], MOST_WRITE_S)
        say("the same, processor time", [cpu for _, cpu in writes])
        page = (folder / "report" / "report.html").stat().st_size
        files = sum(
            each.stat().st_size for each in (folder / "report").rglob("*") if each.is_file()
        )
        met = "met" if files <= MOST_BYTES else "MISSED"
        print(f"page {page / 1e6:.1f} MB, with all files {files / 1e6:.1f} MB; 8 MB wanted: {met}")


if __name__ == "__main__":
    main()
