"""What training by all-reduce costs, against workers that exchange nothing, and against torch's.

    python benchmarks/ring.py [--repetitions 5] [--only TEXT]

Worker steps a second of `ring` over those of `solo` with as many workers, in turn; updates a
second of `ring` over those of `ddp`; then the processor time that one all-reduce costs each rank,
as there are more ranks than cores.
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial

from parameter_server import Case, compare_with_solo, worker_steps_per_s
from ratios import alternate

from paceline.comm.allreduce.base import AllReduce
from paceline.strategies.all_reduce.describe import Ddp, Ring
from paceline.testing.ranks import reduce_together
from paceline.workloads.mnist import LenetMnist, LogisticMnist

CASES = (
    Case("logistic, ring, 3 workers", LogisticMnist(), Ring(), 3, 3000, 0.6),
    Case("logistic, ring, 2 workers", LogisticMnist(), Ring(), 2, 4000, 0.75),
    Case("lenet, ring, 2 workers", LenetMnist(), Ring(), 2, 300, 0.92),
)
AGAINST_DDP = Case("logistic, ring over ddp, 3 workers", LogisticMnist(), Ring(), 3, 1000, 5.0)
NUM_VALUES = 7850
NUM_CALLS = 1000


def processor_s_a_call(all_reduce: AllReduce) -> float:
    """What each rank does: sum a vector of the size of the logistic regression, many times."""
    import torch

    values = torch.zeros(NUM_VALUES)
    for _ in range(100):
        all_reduce.reduce(values)
    began_s = time.process_time()
    for _ in range(NUM_CALLS):
        all_reduce.reduce(values)
    return (time.process_time() - began_s) / NUM_CALLS


def compare_ranks(repetitions: int) -> None:
    """Print how a rank's processor time for a call grows with the number of ranks."""
    costs = {
        num_ranks: [
            statistics.mean(reduce_together("shared", num_ranks, processor_s_a_call))
            for _ in range(repetitions)
        ]
        for num_ranks in (2, 4, 8)
    }
    for num_ranks, seconds in costs.items():
        middle = statistics.median(seconds)
        growth = middle / statistics.median(costs[2])
        print(
            f"31 KB among {num_ranks} ranks: {1e6 * middle:.0f} µs of each rank's processor time "
            f"({1e6 * min(seconds):.0f} to {1e6 * max(seconds):.0f}, n={repetitions}), "
            f"{growth:.2f} times as much as among 2 ({num_ranks / 2:g} is linear)",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    for case in CASES:
        if arguments.only in case.title:
            compare_with_solo(case, arguments.repetitions)
    if arguments.only in AGAINST_DDP.title:
        ratio = alternate(
            f"{AGAINST_DDP.title}: updates/s",
            partial(worker_steps_per_s, AGAINST_DDP, Ring()),
            partial(worker_steps_per_s, AGAINST_DDP, Ddp()),
            arguments.repetitions,
        )
        print(ratio.line(AGAINST_DDP.wanted), flush=True)
    if arguments.only in "ranks":
        compare_ranks(arguments.repetitions)


if __name__ == "__main__":
    main()
