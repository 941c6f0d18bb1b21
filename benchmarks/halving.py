"""A small model on many nodes: recursive halving and doubling over the ring, and what `auto` takes.

    python benchmarks/halving.py [--nodes 16] [--latency 0.001] [--steps 60] [--repetitions 3]

Logistic regression on MNIST (31 KB of gradients) among emulated nodes with a latency between them:
the kernel's, where it has sch_netem, else that of Paceline's own channels, which is printed. All
nodes share this machine's cores, so with a smaller latency than these need for 16 workers the
ratio is that of the work, not of the hops.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial

from ratios import alternate

import paceline
from paceline.clusters.emulated.describe import Emulated
from paceline.strategies.all_reduce.describe import Ring

WANTED = 3.0
QUIET = paceline.Record(tensorboard=False, model=False)


def run(algorithm: str, arguments: argparse.Namespace) -> paceline.Result:
    spec = paceline.RunSpec(
        workload="logistic-mnist",  # type: ignore[arg-type]
        strategy=Ring(algorithm=algorithm),  # type: ignore[arg-type]
        cluster=Emulated(latency_s=arguments.latency),
        num_workers=arguments.nodes,
        batch=8,
        worker_steps=arguments.steps,
        threads=1,
        record=QUIET,
        eval_samples=100,
    )
    with tempfile.TemporaryDirectory() as out:
        return paceline.run(spec, out=out)


def steps_per_s(algorithm: str, arguments: argparse.Namespace) -> float:
    found = run(algorithm, arguments).steps_per_s
    assert found is not None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--latency", type=float, default=0.001, help="seconds")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    chosen = run("auto", arguments)
    first = chosen.workers[0]
    print(f"auto: {first.algorithm}, round trip {1000 * (first.round_trip_s or 0):.2f} ms")
    for warning in chosen.warnings:
        print(warning)
    title = (
        f"31 KB among {arguments.nodes} nodes, {1000 * arguments.latency:g} ms of latency: "
        "steps/s of halving over ring"
    )
    halving, ring = (partial(steps_per_s, each, arguments) for each in ("halving", "ring"))
    print(alternate(title, halving, ring, arguments.repetitions).line(WANTED), flush=True)


if __name__ == "__main__":
    main()
