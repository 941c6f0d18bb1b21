"""Kill the driver with -9 at random moments: what is left?

    python benchmarks/kill_driver.py --runs 30
    python benchmarks/kill_driver.py --runs 50 --emulated

Starts `solo` with six workers, or `ps-sync` on three emulated nodes with a cap on their processors,
kills the driver after a random time between nothing and well into training, and looks for
processes, memory files, locks, temporary files, network namespaces, interfaces and cgroups. Prints
one line a run and ends with code 1 if anything was left.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from paceline.store.runs import all_runs
from paceline.testing.leftovers import Witness, locks_below, unfinished_files

COMMAND = [sys.executable, "-m", "paceline", "run", "logistic-mnist", "--strategy", "solo"]
COMMAND += ["--workers", "6", "--seconds", "60", "--eval-every", "50", "--set", "record.loss=all"]
EMULATED = [*COMMAND[:5], "--strategy", "ps-sync", "--workers", "3", "--seconds", "60"]
EMULATED += ["--cluster", "emulated", "--link", "1gbit", "--set", "cluster.cpus=0.5"]
MOST_S = 6.0
MOST_EMULATED_S = 12.0
PATIENCE_S = 5.0


def kill_one(command: list[str], after_s: float, out: Path) -> tuple[list[str], float]:
    """Start a run, kill its driver; returns what was left and how long the last process took."""
    witness = Witness()
    driver = subprocess.Popen(
        [*command, "--out", str(out)],
        env=witness.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(after_s)
    witness.look()
    driver.kill()
    driver.wait()
    killed_s = time.monotonic()
    while _is_going(witness) and time.monotonic() < killed_s + PATIENCE_S:
        time.sleep(0.01)
    gone_s = time.monotonic() - killed_s
    left = [f"process {pid}" for pid in witness.processes()]
    left += witness.new_memfds() + locks_below(out)
    left += [*witness.left_namespaces(), *witness.new_interfaces()]
    left += [str(path) for path in witness.left_cgroups()]
    left += [str(path) for path in witness.new_files() if path != out]
    left += [str(path) for path in unfinished_files(out)]
    return left, gone_s


def _is_going(witness: Witness) -> bool:
    return bool(witness.processes() or witness.left_cgroups())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--emulated", action="store_true")
    arguments = parser.parse_args()
    command, most_s = (EMULATED, MOST_EMULATED_S) if arguments.emulated else (COMMAND, MOST_S)
    moments = random.Random(arguments.seed)
    num_bad = 0
    with tempfile.TemporaryDirectory(prefix="paceline-kill-") as folder:
        for number in range(arguments.runs):
            after_s = moments.uniform(0, most_s)
            left, gone_s = kill_one(command, after_s, Path(folder))
            num_bad += bool(left)
            print(
                f"{number + 1:3d}  killed after {after_s:4.1f} s, all gone after {gone_s:.2f} s: ",
                end="",
            )
            print(", ".join(left) or "nothing left", flush=True)
        subprocess.run(
            [sys.executable, "-m", "paceline", "ls", "--out", folder],
            check=True,
            capture_output=True,
        )
        unsealed = [run.name for run in all_runs(Path(folder)) if not run.is_sealed]
    print(f"{arguments.runs - num_bad} of {arguments.runs} left nothing", end="; ")
    print(f"{len(unsealed)} not sealed by `paceline ls`")
    return 1 if num_bad or unsealed else 0


if __name__ == "__main__":
    sys.exit(main())
