"""What measuring costs: the same run with and without monitor and records.

python benchmarks/observer_cost.py [--repetitions 7]
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial

from ratios import alternate

import paceline
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


def worker_steps_per_s(name: str, record: paceline.Record) -> float:
    workload, strategy, num_workers, steps, _ = CASES[name]
    spec = paceline.RunSpec(
        workload=workload,
        strategy=strategy,
        num_workers=num_workers,
        worker_steps=steps,
        threads=1,
        record=record,
    )
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(spec, out=out)
    assert result.worker_steps_per_s is not None
    return result.worker_steps_per_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=7)
    arguments = parser.parse_args()
    for name, (*_, wanted) in CASES.items():
        ratio = alternate(
            f"{name}: worker steps/s observed over unobserved",
            partial(worker_steps_per_s, name, paceline.Record()),
            partial(worker_steps_per_s, name, UNSEEN),
            arguments.repetitions,
        )
        print(ratio.line(wanted), flush=True)


if __name__ == "__main__":
    main()
