"""What checkpoints cost: steps per second with one every 10 s over those of the same run without.

    python benchmarks/checkpoint_cost.py --brief                        # eight minutes
    python benchmarks/checkpoint_cost.py --brief --strategies ps-async  # the same with a server
    python benchmarks/checkpoint_cost.py [--seconds 26] [--blocks 20] [--strategies single,ring]
    python benchmarks/checkpoint_cost.py --kept build/checkpoint-cost.jsonl  # goes on where it was

Trains a model of 233 MB with momentum. Runs with and without checkpoints alternate, each long
enough for two of them; one that made fewer counts for nothing. Prints for every strategy the ratio
of steps per second, by the clock and by the processors (every process of the run, so the threads
that write too), with its median and the 95 % interval of that, and what part of the time training
stood still for copies, which a busy machine disturbs less. Wanted by the clock: at least 0.97. The
verdict is `undecided` where the interval holds 0.97, and then the answer is no either.

A block takes about 65 s, all three strategies an hour or more. `--brief` is 7 blocks of one
strategy, `single` unless given: of fewer than 6 not even the whole range is a 95 % interval. With
`--kept` each block is written into a file, and those that are there are not measured again, so that
more may be added later (`--blocks 20`).
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from before_after import Interval, cpu_seconds
from kept import Kept

import paceline

WANTED = 0.97
EVERY_S = 10.0
LATE_S = 5.0
"""A checkpoint is planned as steps: by how much the last may be late."""


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


@dataclass(frozen=True)
class Measured:
    """One run."""

    steps_per_s: float
    steps_per_cpu_s: float
    still: float
    """The part of the time in which all stood still."""
    num_checkpoints: int
    still_s: float
    num_steps: int


def measured(spec: paceline.RunSpec, zygote: paceline.Zygote) -> Measured:
    """Carry out a run. What starting and sealing cost the processors is in both sides alike."""
    before_s = cpu_seconds()
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(spec, out=out, zygote=zygote)
    used_s = cpu_seconds() - before_s
    assert result.steps_per_s is not None
    assert result.train_s is not None
    return Measured(
        steps_per_s=result.steps_per_s,
        steps_per_cpu_s=result.worker_steps / used_s,
        still=result.checkpoint_s / result.train_s,
        num_checkpoints=result.num_checkpoints,
        still_s=result.checkpoint_s,
        num_steps=result.worker_steps,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=26.0)
    parser.add_argument("--blocks", type=int, help="20, in brief 7")
    parser.add_argument("--size", default="233MB")
    parser.add_argument("--strategies", help="single,ring,ps-sync, in brief single")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no block later")
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--kept", type=Path, help="where blocks are kept")
    arguments = parser.parse_args()
    arguments.blocks = arguments.blocks or (7 if arguments.brief else 20)
    usual = "single" if arguments.brief else "single,ring,ps-sync"
    arguments.strategies = arguments.strategies or usual
    kept = Kept(arguments.kept)
    with paceline.Zygote() as zygote:
        names = arguments.strategies.split(",")
        are_met = [_compare(name, arguments, zygote, kept) for name in names]
    return 0 if all(are_met) else 1


def _block(
    sides: dict[bool, paceline.RunSpec], zygote: paceline.Zygote, *, begins_with: bool
) -> list[dict[str, Any]]:
    """Carry out both runs of a block; gives that with checkpoints first."""
    found = {
        keeps: asdict(measured(sides[keeps], zygote)) for keeps in (begins_with, not begins_with)
    }
    return [found[True], found[False]]


def _compare(
    strategy: str, arguments: argparse.Namespace, zygote: paceline.Zygote, kept: Kept
) -> bool:
    sides = {
        keeps: spec_of(strategy, arguments.seconds, arguments.size, keeps=keeps)
        for keeps in (True, False)
    }
    wanted = int((arguments.seconds - LATE_S) // EVERY_S)
    blocks: list[dict[bool, Measured]] = []
    share_s = 60 * arguments.minutes / len(arguments.strategies.split(","))
    until_s = time.monotonic() + share_s - 2 * arguments.seconds
    for number in range(arguments.blocks):
        if number and time.monotonic() > until_s:
            break
        key = f"{strategy}, {arguments.size}, {arguments.seconds:g} s, block {number + 1}"
        two = kept(key, partial(_block, sides, zygote, begins_with=number % 2 == 0))
        block = {keeps: Measured(**each) for keeps, each in zip((True, False), two, strict=True)}
        if block[True].num_checkpoints < wanted:
            made = f"{block[True].num_checkpoints} of {wanted} checkpoints"
            print(f"{strategy}: block {number + 1} left out: {made}", flush=True)
        else:
            blocks.append(block)
    if not blocks:
        return False
    by_clock = Interval.of([each[True].steps_per_s / each[False].steps_per_s for each in blocks])
    by_cpu = Interval.of(
        [each[True].steps_per_cpu_s / each[False].steps_per_cpu_s for each in blocks]
    )
    _print_each(strategy, blocks)
    still = statistics.median(each[True].still for each in blocks)
    print(by_clock.line(f"{strategy}: steps/s", WANTED))
    print(by_cpu.line(f"{strategy}: steps per CPU second", WANTED))
    print(f"{strategy}: stood still {100 * still:.2f} % of the time", flush=True)
    return by_clock.verdict(WANTED) == "met"


def _print_each(strategy: str, blocks: list[dict[bool, Measured]]) -> None:
    """Print what one checkpoint cost: these mean something on a busy machine too."""
    still_s = [each[True].still_s / each[True].num_checkpoints for each in blocks]
    cpu_s = [
        (1 / each[True].steps_per_cpu_s - 1 / each[False].steps_per_cpu_s)
        * each[True].num_steps
        / each[True].num_checkpoints
        for each in blocks
    ]
    print(
        f"{strategy}: per checkpoint {statistics.median(cpu_s):.2f} CPU seconds more, "
        f"{statistics.median(still_s):.3f} s at rest (medians of {len(blocks)} blocks)"
    )


if __name__ == "__main__":
    sys.exit(main())
