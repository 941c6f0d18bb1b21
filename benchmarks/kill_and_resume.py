"""Kill the driver with -9 while checkpoints are written, and resume: is anything lost or doubled?

    python benchmarks/kill_and_resume.py --runs 100
    python benchmarks/kill_and_resume.py --kept build/kill-and-resume.jsonl  # goes on where it was

Runs of `single`, `ring` and `ps-sync` in turns keep a checkpoint every second step, so that one is
written at nearly every moment. The driver is killed at a random moment after the first one began.
Then all processes must end within 10 s, the run must be resumed from a checkpoint that loads, and
end with parameters that are equal to the bit to those of a run that was left alone, with every step
counted once; and every checkpoint that is there has to load, the older ones too. Kills before the
first checkpoint was whole, or after the end, say nothing of that: they are made up for by others.
Prints one line per run and ends with code 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from kept import Kept

import paceline
from paceline.errors import StateError, StoreError
from paceline.store.checkpoints import folders, opened
from paceline.store.runs import RunDir, all_runs
from paceline.store.states import read_state
from paceline.testing.leftovers import Witness

STEPS = 60
EVERY = 2
WORKERS = {"single": 1, "ring": 2, "ps-sync": 2}
PATIENCE_S = 10.0
STARTING_S = 60.0
ENDED_BEFORE = "ended before"
_MOST_TRIES = 3


def spec_of(strategy: str) -> paceline.RunSpec:
    """Say what is run: a model large enough that writing it takes a while."""
    table = {
        "workload": {"name": "synthetic", "bytes": "4MB"},
        "strategy": strategy,
        "num_workers": WORKERS[strategy],
        "optimizer": {"name": "sgd", "momentum": 0.9},
        "steps": STEPS,
        "eval_every": 7,
        "threads": 1,
        "checkpoint_every": EVERY,
        "record": {"tensorboard": False, "monitor": False, "interval_s": 0.01},
    }
    return paceline.RunSpec.from_table(table)


def model_of(result: paceline.Result) -> str:
    """Sum up the parameters of a run."""
    return hashlib.sha256((Path(result.run) / "model.safetensors").read_bytes()).hexdigest()


def killed(spec: Path, out: Path, part: float, train_s: float) -> tuple[RunDir | None, float]:
    """Start a run and kill its driver in the middle; gives the run, and how long all took to end.

    None: it had ended before.
    """
    witness = Witness()
    command = [sys.executable, "-m", "paceline", "run", str(spec), "--out", str(out)]
    driver = subprocess.Popen(
        command, env=witness.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline_s = time.monotonic() + STARTING_S
    while not list(out.glob("*/checkpoints")) and time.monotonic() < deadline_s:
        time.sleep(0.002)
    time.sleep(part * train_s)
    witness.look()
    driver.kill()
    driver.wait()
    killed_s = time.monotonic()
    while witness.processes() and time.monotonic() < killed_s + PATIENCE_S:
        time.sleep(0.01)
    took_s = time.monotonic() - killed_s
    (run,) = all_runs(out)
    return (None if run.is_sealed else run), took_s


def problems_of(result: paceline.Result, wanted: str) -> list[str]:
    """Say what is not as in a run that was left alone."""
    found = []
    if model_of(result) != wanted:
        found.append("other parameters")
    if result.global_steps != STEPS:
        found.append(f"{result.global_steps} steps, not {STEPS}")
    rows = paceline.load(result).rows()
    for seat, part in rows.group_by("seat"):
        if part["count"].sum() != STEPS:
            found.append(f"{seat[0]}: rows of {part['count'].sum()} steps")
    evaluated = paceline.load(result).evaluations()["progress"].to_list()
    if evaluated != [*range(7, STEPS, 7), STEPS]:
        found.append(f"evaluated at {evaluated}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", type=Path, help="where what was found is kept")
    arguments = parser.parse_args()
    kept = Kept(arguments.kept)
    moments, seen = random.Random(arguments.seed), Counter[str]()
    ends_s, num_bad, num_resumed = [], 0, 0
    with (
        tempfile.TemporaryDirectory(prefix="paceline-kill-") as folder,
        paceline.Zygote() as zygote,
    ):
        specs = {each: spec_of(each) for each in WORKERS}
        alone = {
            name: paceline.run(spec, out=Path(folder, "alone"), zygote=zygote)
            for name, spec in specs.items()
        }
        for number in range(_MOST_TRIES * arguments.runs):
            if num_resumed == arguments.runs:
                break
            strategy = [*WORKERS][number % len(WORKERS)]
            out = Path(folder, f"{number}")
            key = f"{strategy}, seed {arguments.seed}, try {number + 1}"
            attempt = partial(
                tried, specs[strategy], out, moments.random(), alone[strategy], zygote
            )
            said, problems, took_s = kept(key, attempt)
            ends_s.append(took_s)
            seen[said] += 1
            if said == ENDED_BEFORE:
                continue
            num_resumed += said.startswith("resumed")
            num_bad += bool(problems)
            told = ", ".join(problems) or "as it should be"
            print(f"{number + 1:3d}  {strategy:8s} {said}: {told}", flush=True)
    print(f"{dict(seen)}; all processes ended within {max(ends_s):.2f} s")
    print(
        f"{num_resumed} were resumed, of {arguments.runs} wanted; with all others {num_bad} wrong"
    )
    return 1 if num_bad or num_resumed < arguments.runs else 0


def tried(
    spec: paceline.RunSpec,
    out: Path,
    moment: float,
    alone: paceline.Result,
    zygote: paceline.Zygote,
) -> list[Any]:
    """Kill a run's driver and resume it: what can be said of that, what is wrong, and how long all
    took to end.
    """
    out.mkdir()
    file = out.with_suffix(".toml")
    file.write_text(spec.toml())
    run, took_s = killed(file, out, moment, alone.train_s or 1.0)
    if run is None:
        return [ENDED_BEFORE, [], took_s]
    said, problems = resumed(run, out, model_of(alone), zygote)
    if took_s >= PATIENCE_S:
        problems.append("processes were left")
    return [said, problems, took_s]


def resumed(run: RunDir, out: Path, wanted: str, zygote: paceline.Zygote) -> tuple[str, list[str]]:
    """Resume a run whose driver was killed; says whether it could be, and what is wrong."""
    kept, is_writing = folders(run), run.arriving.exists()
    problems = [problem for each in kept if (problem := _why_it_does_not_load(each))]
    try:
        result = paceline.resume(run.path, out=out, zygote=zygote)
    except StoreError as error:
        problems += [str(error)] if kept else []
        return "killed before the first checkpoint was whole", problems
    said = "resumed, killed while one was written" if is_writing else "resumed"
    problems += problems_of(result, wanted)
    if result.parent_step != opened(kept[0]).progress:
        problems.append(f"it went on from step {result.parent_step}, not from the newest")
    problems += [each for each in result.warnings if "checkpoint was due" not in each]
    return said, problems


def _why_it_does_not_load(folder: Path) -> str | None:
    """Say what is wrong with a checkpoint: its files by their checksums, or a state in them."""
    try:
        checkpoint = opened(folder)
        for seat in checkpoint.manifest.seats:
            read_state(checkpoint.state(seat))
    except (StoreError, StateError) as error:
        return f"{folder.name}: {error}"
    return None


if __name__ == "__main__":
    sys.exit(main())
