"""What checkpoints cost: steps per second with one every 10 s over those of the same run without.

    python benchmarks/checkpoint_cost.py [--seconds 21] [--blocks 5] [--strategies single,ring]

Trains a model of 233 MB with momentum. Runs with and without checkpoints alternate, each long
enough for two of them. Prints for every strategy the ratio of steps per second, with the median and
the spread over the blocks, and what part of the time training stood still for copies, which
a busy machine disturbs less. Wanted: at least 0.97.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from functools import partial

from ratios import Ratio

import paceline

WANTED = 0.97
EVERY_S = 10.0


def spec_of(strategy: str, seconds: float, size: str, *, keeps: bool) -> paceline.RunSpec:
    """Say what is run."""
    table = {
        "workload": {"name": "synthetic", "bytes": size},
        "strategy": strategy,
        "num_workers": 1 if strategy == "single" else 2,
        "optimizer": {"name": "sgd", "momentum": 0.9},
        "seconds": seconds,
        "threads": 1,
        "record": {"tensorboard": False, "model": False},
        **({"checkpoint_every": f"{EVERY_S:g}s"} if keeps else {}),
    }
    return paceline.RunSpec.from_table(table)


def measured(
    strategy: str, seconds: float, size: str, zygote: paceline.Zygote, *, keeps: bool
) -> tuple[float, float, int]:
    """Give steps per second, what part of the time all stood still, and how many were made."""
    spec = spec_of(strategy, seconds, size, keeps=keeps)
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(spec, out=out, zygote=zygote)
    assert result.steps_per_s is not None
    assert result.train_s is not None
    return result.steps_per_s, result.checkpoint_s / result.train_s, result.num_checkpoints


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=21.0)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--size", default="233MB")
    parser.add_argument("--strategies", default="single,ring,ps-sync")
    arguments = parser.parse_args()
    with paceline.Zygote() as zygote:
        names = arguments.strategies.split(",")
        are_met = [_compare(name, arguments, zygote) for name in names]
    return 0 if all(are_met) else 1


def _compare(strategy: str, arguments: argparse.Namespace, zygote: paceline.Zygote) -> bool:
    rates: dict[bool, list[tuple[float, float, int]]] = {True: [], False: []}
    run = partial(measured, strategy, arguments.seconds, arguments.size, zygote)
    for number in range(arguments.blocks):
        for keeps in (True, False) if number % 2 == 0 else (False, True):
            rates[keeps].append(run(keeps=keeps))
    if not all(made for *_, made in rates[True]):
        print(f"{strategy}: a run made no checkpoint: --seconds {arguments.seconds:g} are too few")
        return False
    rate = Ratio(strategy, *([each[0] for each in rates[keeps]] for keeps in (True, False)))
    still = statistics.median(each[1] for each in rates[True])
    print(f"{rate.line(WANTED)}; stood still {100 * still:.2f} % of the time", flush=True)
    return rate.is_met(WANTED)


if __name__ == "__main__":
    sys.exit(main())
