"""What an undisturbed run pays for being able to lose a seat, over one that would end then.

    python benchmarks/on_failure_cost.py                       # ten minutes, a quiet machine
    python benchmarks/on_failure_cost.py --strategies ring --blocks 40
    python benchmarks/on_failure_cost.py --kept build/on-failure.jsonl  # goes on where it was

A block is one short run each under `--on-failure abort`, `go-on` and `replace`, and the next block
begins with another one. Prints, for every strategy, steps per second and steps per CPU second of
the latter two over those of `abort`: the median of the blocks' ratios with its 95 % interval. CPU
seconds are those of all processes of a run, less those of a run of a few steps.

Wanted of `go-on`: at least 0.99. `replace` is shown beside it and not judged: there a run exchanges
by messages from its start, on one host too, and under parameter servers no gradients leave while
back-propagation goes on. Snapshots of servers are not in it: runs are shorter than `snapshot_s`.
Exit code: 0 if nothing was missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

from before_after import FEW_STEPS, SHORT_RUNS, Checkout, Interval, steps_for
from kept import Kept

ANSWERS: Final = ("abort", "go-on", "replace")
WANTED: Final = 0.99
_JUDGED: Final = ("go-on",)


def main() -> int:
    """Measure; gives 1 where an undisturbed run pays more than is wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--strategies", default="ring,ps-async,ps-sync")
    parser.add_argument("--workload", default="lenet-mnist")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a run, about")
    parser.add_argument("--kept", type=Path, help="where blocks are kept")
    options = parser.parse_args()
    checkout, kept = Checkout(sys.executable), Kept(options.kept)
    try:
        are_missed = [
            _missed(_case(name, options), options, checkout, kept)
            for name in options.strategies.split(",")
        ]
    finally:
        checkout.end()
    return 1 if any(are_missed) else 0


def _case(strategy: str, options: argparse.Namespace) -> dict[str, Any]:
    """Say what is run, but for its length and what a loss means."""
    return {
        "workload": {"name": options.workload, "subset": "tenth"},
        "strategy": strategy,
        "num_workers": options.workers,
        "threads": 1,
        "record": {"tensorboard": False, "model": False},
    }


def _missed(
    case: dict[str, Any], options: argparse.Namespace, checkout: Checkout, kept: Kept
) -> bool:
    """Print what a strategy pays; whether that is more than is wanted."""
    key = (
        f"{options.workload}, {case['strategy']}, {options.workers} workers, {options.seconds:g} s"
    )
    steps = kept(f"{key}: steps", partial(steps_for, case, checkout, options.seconds))
    few = {**case, "worker_steps": FEW_STEPS}
    idle_s = {
        each: kept(f"{key}, {each}: idle", partial(_idle_s, {**few, "on_failure": each}, checkout))
        for each in ANSWERS
    }
    blocks = [
        kept(
            f"{key}: block {number + 1}",
            partial(_block, {**case, "worker_steps": steps}, checkout, number),
        )
        for number in range(options.blocks)
    ]
    is_missed = False
    for answer in ANSWERS[1:]:
        for what, ratios in _ratios(answer, blocks, idle_s).items():
            interval = Interval.of(ratios)
            title = f"{case['strategy']}: {what}, {answer} over abort"
            print(interval.line(title, WANTED), flush=True)
            is_missed |= answer in _JUDGED and interval.verdict(WANTED) == "MISSED"
    return is_missed


def _idle_s(table: dict[str, Any], checkout: Checkout) -> float:
    """CPU seconds of starting and ending."""
    used_s: list[float] = [checkout.run(table)["cpu_s"] for _ in range(SHORT_RUNS)]
    return statistics.median(used_s)


def _block(case: dict[str, Any], checkout: Checkout, number: int) -> dict[str, dict[str, float]]:
    """One run under each answer; each block begins with another."""
    first = number % len(ANSWERS)
    inorder = (*ANSWERS[first:], *ANSWERS[:first])
    return {each: checkout.run({**case, "on_failure": each}) for each in inorder}


def _ratios(
    answer: str, blocks: list[dict[str, dict[str, float]]], idle_s: dict[str, float]
) -> dict[str, list[float]]:
    """Each block's steps per second, and per CPU second, over those of `abort`."""

    def cpu_s(block: dict[str, dict[str, float]], of: str) -> float:
        return block[of]["cpu_s"] - idle_s[of]

    return {
        "steps/s": [each[answer]["steps_per_s"] / each["abort"]["steps_per_s"] for each in blocks],
        "steps per CPU second": [cpu_s(each, "abort") / cpu_s(each, answer) for each in blocks],
    }


if __name__ == "__main__":
    sys.exit(main())
