"""The hidden straggler: 200 ms added to one rank's backward pass, and whether the verdict names it.

python benchmarks/stragglers.py [--tries 20] [--only ring]
"""

from __future__ import annotations

import argparse
import tempfile

import paceline
from paceline.spec import RunSpec
from paceline.testing.workloads import Burdened

STRATEGIES = ("ring", "ps-sync", "ddp")
NUM_WORKERS = 3


def names_the_rank(strategy: str, rank: int) -> bool:
    spec = RunSpec.from_table(
        {
            "workload": Burdened(slow_rank=rank, slow_backward_ms=200),
            "strategy": {"name": strategy},
            "num_workers": NUM_WORKERS,
            "worker_steps": 5,
            "eval_samples": 8,
            "record": {"tensorboard": False, "model": False},
        }
    )
    with tempfile.TemporaryDirectory() as out:
        verdict = paceline.run(spec, out=out).verdict
    return verdict is not None and (verdict.kind, verdict.where) == ("straggler", f"worker{rank}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    for strategy in (each for each in STRATEGIES if arguments.only in each):
        named = [names_the_rank(strategy, each % NUM_WORKERS) for each in range(arguments.tries)]
        met = "met" if all(named) else "MISSED"
        print(
            f"{strategy}: named in {sum(named)} of {len(named)} tries; wanted all: {met}",
            flush=True,
        )


if __name__ == "__main__":
    main()
