"""What the harness costs: `single` through Paceline against the same loop written bare in torch.

    python benchmarks/harness_cost.py [--repetitions 7]

Both gather the same shuffled rows by index, compute, read the loss as a number and apply plain
SGD, each in a process of its own with the same number of threads; they alternate. There are two
bare loops: one with torch.optim.SGD, as people write it, and one tuned by hand, which updates all
parameters as one vector, as we do, and so shows what measuring and recording alone cost.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ratios import alternate

import paceline
from paceline.training.optim import Sgd
from paceline.workloads.mnist import LenetMnist, LogisticMnist, Mnist

if TYPE_CHECKING:
    from torch import nn

CASES: dict[str, tuple[Mnist, int, int, float]] = {
    # workload, batch, steps, wanted
    "logistic": (LogisticMnist(), 75, 12_000, 0.95),
    "lenet": (LenetMnist(), 64, 1_200, 0.98),
}
LR = 0.01


def bare(name: str, peer: str, threads: int) -> None:
    """The loop as one would write it without us; prints its steps a second."""
    import torch

    workload, batch, steps, _ = CASES[name]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    inputs, classes = workload.data("train", torch.float32).columns  # type: ignore[attr-defined]
    model = workload.model()
    zero, step = PEERS[peer](model)
    losses: list[float] = []
    began = time.perf_counter()
    while len(losses) < steps:
        permutation = torch.randperm(len(inputs))
        for start in range(0, len(inputs) - batch + 1, batch):
            rows = permutation[start : start + batch]
            x, y = inputs.index_select(0, rows), classes.index_select(0, rows)
            zero()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
    print(steps / (time.perf_counter() - began))


Step = Callable[[], object]


def as_people_write_it(model: nn.Module) -> tuple[Step, Step]:
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    return optimizer.zero_grad, optimizer.step


def tuned_by_hand(model: nn.Module) -> tuple[Step, Step]:
    from paceline.training.replica import Replica

    replica = Replica(model)
    parameters, gradients = replica.parameters, replica.gradients
    return gradients.zero_, lambda: parameters.add_(gradients, alpha=-LR)


PEERS = {"torch.optim": as_people_write_it, "tuned": tuned_by_hand}


def time_bare(name: str, peer: str, threads: int) -> float:
    command = [sys.executable, __file__, "--only", name, "--bare", peer]
    command += ["--threads", str(threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def time_ours(name: str, threads: int) -> float:
    workload, batch, steps, _ = CASES[name]
    spec = paceline.RunSpec(
        workload=workload, batch=batch, steps=steps, threads=threads, optimizer=Sgd(lr=LR)
    )
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(spec, out=out)
    assert result.steps_per_s is not None
    return result.steps_per_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--bare", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    threads = arguments.threads
    if arguments.bare:
        bare(arguments.only, arguments.bare, threads)
        return
    for name in [arguments.only] if arguments.only else CASES:
        for peer in PEERS:
            ratio = alternate(
                f"{name}, steps/s of single over a bare loop ({peer})",
                partial(time_ours, name, threads),
                partial(time_bare, name, peer, threads),
                arguments.repetitions,
            )
            print(ratio.line(CASES[name][3]), flush=True)


if __name__ == "__main__":
    main()
