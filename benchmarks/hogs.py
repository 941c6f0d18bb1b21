"""Undisturbed runs beside a busy program on each core: is anybody taken for lost?

    python benchmarks/hogs.py --runs 50
    python benchmarks/hogs.py --kept build/hogs.jsonl    # goes on where it was

The strategies take turns, with `on_failure=go-on`: a worker that is given up by mistake is then
gone while the run goes on. Counts every departure, none of which was caused, and ends with code 1
if there was one, if a run failed, or if a worker has not trained to the end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from kept import Kept

import paceline

STRATEGIES: Final = ("ring", "ps-async", "ps-sync", "ps-ssp")
HOG: Final = "while True: pass"


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Keep so many cores busy, each by a process of ours that is ended by its id."""
    started = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(count)]
    try:
        yield
        gone = [each.pid for each in started if each.poll() is not None]
        if gone:
            raise SystemExit(f"hogs ended by themselves: {gone}")
    finally:
        for each in started:
            each.kill()
            each.wait()


def spec_of(strategy: str, workers: int, seconds: float) -> paceline.RunSpec:
    """Say what is run: nothing in it goes wrong on purpose."""
    return paceline.RunSpec.from_table(
        {
            "workload": {"name": "lenet-mnist", "subset": "tenth"},
            "strategy": strategy,
            "num_workers": workers,
            "seconds": seconds,
            "eval_every": 200,
            "on_failure": "go-on",
            "record": {"tensorboard": False, "model": False},
        }
    )


def wrong_in(spec: paceline.RunSpec, zygote: paceline.Zygote) -> list[str]:
    """Carry out a run; give what was taken for lost, or went wrong."""
    with tempfile.TemporaryDirectory() as out:
        try:
            result = paceline.run(spec, out=out, zygote=zygote)
        except paceline.RunError as error:
            return [f"failed: {error}"]
    assert spec.seconds is not None
    early = [each.name for each in result.workers if each.train_s < spec.seconds]
    found = [f"{each.who}: {each.reason}" for each in result.disturbances]
    found += [text for text in result.warnings if "went on without" in text]
    return found + [f"{name} did not train to the end" for name in early]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--kept", type=Path, help="where what was found is kept")
    options = parser.parse_args()
    kept = Kept(options.kept)
    num_hogs, num_bad = os.cpu_count() or 1, 0
    with hogs(num_hogs), paceline.Zygote() as zygote:
        for number in range(options.runs):
            strategy = STRATEGIES[number % len(STRATEGIES)]
            spec = spec_of(strategy, options.workers, options.seconds)
            key = f"{strategy}, {options.workers} workers, {options.seconds:g} s, run {number + 1}"
            wrong = kept(key, partial(wrong_in, spec, zygote))
            num_bad += bool(wrong)
            told = "; ".join(wrong) or "all trained to the end"
            print(f"{number + 1:3d}  {strategy:8s} {told}", flush=True)
    print(
        f"{options.runs} runs beside {num_hogs} hogs; in {num_bad} somebody was given up or failed"
    )
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
