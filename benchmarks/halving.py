"""A small model on many nodes: recursive halving and doubling over the ring, and what `auto` takes.

    python benchmarks/halving.py [--nodes 16] [--latency 0.001] [--dilation 10] [--steps 60]
        [--repetitions 3]

31 KB of gradients among emulated nodes with a latency between them: the kernel's, where it has
sch_netem, else that of Paceline's own channels, which is printed. All nodes share this machine's
cores, so nothing is computed: a replayed device takes a microsecond per layer, and a step is its
hops. Time is slowed, since what these cores take to handle a hop of 16 workers would else be as
long as the hop: figures are of the slowed clock. A run that this host limited all the same says so.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from made_rates import made_rates
from ratios import alternate

import paceline
from paceline.spec import RunSpec

WANTED = 3.0
NUM_BYTES = 31_400
QUIET = {"tensorboard": False, "model": False, "monitor": False}


def spec_of(algorithm: str, device: str, arguments: argparse.Namespace) -> RunSpec:
    return RunSpec.from_table(
        {
            "workload": {"name": "synthetic", "bytes": NUM_BYTES},
            "strategy": {"name": "ring", "algorithm": algorithm},
            "cluster": {"name": "emulated", "latency_s": arguments.latency},
            "device": device,
            "dilation": arguments.dilation,
            "num_workers": arguments.nodes,
            "batch": 8,
            "worker_steps": arguments.steps,
            "record": QUIET,
        }
    )


def run(algorithm: str, arguments: argparse.Namespace) -> paceline.Result:
    with tempfile.TemporaryDirectory() as out:
        device = made_rates(Path(out), NUM_BYTES)
        result = paceline.run(spec_of(algorithm, device, arguments), out=out)
    if result.host_limited:
        print(f"  {algorithm}: limited by this host", flush=True)
    return result


def steps_per_s(algorithm: str, arguments: argparse.Namespace) -> float:
    found = run(algorithm, arguments).steps_per_s
    assert found is not None
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--latency", type=float, default=0.001, help="seconds")
    parser.add_argument("--dilation", type=float, default=10.0, help="how far time is slowed")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    chosen = run("auto", arguments)
    first = chosen.workers[0]
    print(f"auto: {first.algorithm}, round trip {1000 * (first.round_trip_s or 0):.2f} ms")
    for warning in chosen.warnings:
        print(warning)
    title = (
        f"31 KB among {arguments.nodes} nodes, {1000 * arguments.latency:g} ms of latency, "
        f"dilated {arguments.dilation:g}x: steps/s of halving over ring"
    )
    halving, ring = (partial(steps_per_s, each, arguments) for each in ("halving", "ring"))
    ratio = alternate(title, halving, ring, arguments.repetitions)
    print(ratio.line(WANTED), flush=True)
    return 0 if ratio.is_met(WANTED) else 1


if __name__ == "__main__":
    sys.exit(main())
