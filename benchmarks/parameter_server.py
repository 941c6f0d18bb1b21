"""What a parameter server costs, against workers that exchange nothing.

    python benchmarks/parameter_server.py [--repetitions 5]

Worker steps a second of each parameter server over those of `solo` with as many workers, in turn;
then one worker's push and pull of a large model, against plain copies of the same memory; then
the sparse path as its table grows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial

from ratios import alternate

import paceline
from paceline.clusters.local import Local
from paceline.strategies.base import Strategy
from paceline.strategies.local import Solo
from paceline.strategies.parameter_server.describe import PsAsync, PsSync
from paceline.training.optim import Sgd
from paceline.workloads.base import Workload
from paceline.workloads.mnist import LenetMnist, LogisticMnist
from paceline.workloads.synthetic import Synthetic

QUIET = paceline.Record(tensorboard=False, model=False)
LARGE_BYTES = 233_000_000


@dataclass(frozen=True)
class Case:
    title: str
    workload: Workload
    strategy: Strategy
    num_workers: int
    steps: int
    wanted: float
    transport: str = "shared"


CASES = (
    Case("logistic, ps-async, 3 workers", LogisticMnist(), PsAsync(), 3, 5000, 0.8),
    Case("logistic, ps-sync, 3 workers", LogisticMnist(), PsSync(), 3, 3000, 0.5),
    Case("logistic, ps-sync, 2 workers", LogisticMnist(), PsSync(), 2, 4000, 0.7),
    Case("logistic, ps-async, 3 workers, zmq", LogisticMnist(), PsAsync(), 3, 3000, 0.55, "zmq"),
    Case("lenet, ps-async, 3 workers", LenetMnist(), PsAsync(), 3, 200, 0.9),
    Case("lenet, ps-sync, 2 workers", LenetMnist(), PsSync(), 2, 300, 0.9),
)


def run(strategy: Strategy, transport: str, **fields: object) -> paceline.Result:
    spec = paceline.RunSpec(
        strategy=strategy,
        cluster=Local(transport=transport),  # type: ignore[arg-type]
        record=QUIET,
        threads=1,
        eval_samples=100,
        **fields,  # type: ignore[arg-type]
    )
    with tempfile.TemporaryDirectory() as out:
        return paceline.run(spec, out=out)


def worker_steps_per_s(case: Case, strategy: Strategy) -> float:
    result = run(
        strategy,
        case.transport,
        workload=case.workload,
        num_workers=case.num_workers,
        worker_steps=case.steps,
    )
    assert result.worker_steps_per_s is not None
    return result.worker_steps_per_s


def compare_with_solo(case: Case, repetitions: int) -> None:
    ours = partial(worker_steps_per_s, case, case.strategy)
    solo = partial(worker_steps_per_s, case, Solo())
    title = f"{case.title}: worker steps/s over solo's"
    print(alternate(title, ours, solo, repetitions).line(case.wanted), flush=True)


def copies_s(num_bytes: int) -> float:
    """Two plain copies of so much memory, the best of five."""
    import torch

    torch.set_num_threads(1)
    source, target = torch.ones(num_bytes // 4), torch.empty(num_bytes // 4)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        target.copy_(source)
        target.copy_(source)
        times.append(time.perf_counter() - began)
    return min(times)


def large_exchange_s(transport: str) -> float:
    """Seconds a step that one worker spends on pushing and pulling 233 MB."""
    workload = Synthetic(bytes=LARGE_BYTES, layers=8, rows=100)
    result = run(
        PsAsync(), transport, workload=workload, batch=1, worker_steps=10, optimizer=Sgd(lr=1e-6)
    )
    exchange_s = result.workers[0].exchange_s
    assert exchange_s is not None
    return exchange_s / result.worker_steps


def sparse_rows_per_s(features: int) -> float:
    """Rows per second of three asynchronous workers, 39 nonzeros a row, batch 100."""
    workload = Synthetic(features=features, nonzeros=39, rows=30_000)
    result = run(PsAsync(), "shared", workload=workload, num_workers=3, batch=100, worker_steps=800)
    assert result.samples_per_s is not None
    return result.samples_per_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    for case in CASES:
        if arguments.only in case.title:
            compare_with_solo(case, arguments.repetitions)
    if arguments.only in "large model":
        compare_large(arguments.repetitions)
    if arguments.only in "sparse":
        compare_sparse(arguments.repetitions)


def compare_large(repetitions: int) -> None:
    plain = [copies_s(LARGE_BYTES) for _ in range(repetitions)]
    for transport in ("shared", "zmq"):
        ours = [large_exchange_s(transport) for _ in range(repetitions)]
        ratio = statistics.median(ours) / statistics.median(plain)
        rate = 2 * LARGE_BYTES / statistics.median(ours) / 1e9
        print(
            f"233 MB pushed and pulled, {transport}: {1e3 * statistics.median(ours):.0f} ms "
            f"({1e3 * min(ours):.0f} to {1e3 * max(ours):.0f}, n={repetitions}), {ratio:.2f} times "
            f"two plain copies, {rate:.2f} GB/s both ways",
            flush=True,
        )


def compare_sparse(repetitions: int) -> None:
    ratio = alternate(
        "sparse, batch 100, 3 workers: rows/s with 33.7 M weights over 1 M",
        partial(sparse_rows_per_s, 33_762_578),
        partial(sparse_rows_per_s, 1_000_000),
        repetitions,
    )
    print(ratio.line(1 / 1.3), flush=True)


if __name__ == "__main__":
    main()
