"""How long starting takes: six workers until all are ready.

    python benchmarks/start_up.py [--repetitions 5]
    python benchmarks/start_up.py --before ../before/.venv/bin/python [--pairs 15]

"Ready" is when the driver has heard from every seat and says go. Six workers are compared with
one: the difference is what five more forks, models and data sets cost. "Apart" is the time from
the first seat that is ready to the last. "The next of several" is a run that finds torch imported,
as all but the first of a comparison or a study do.

With `--before`, the start of `ps-sync` with three workers is compared with another checkout's, by
turns: a run of one step on a tenth of MNIST, and none finds torch imported. The median of the
pairs' ratios is met if its 95 % interval reaches 1. Exit code: 0 if it does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from before_after import LOGISTIC, Checkout, Interval

import paceline
from paceline.clusters.zygote import Zygote
from paceline.strategies.local import Solo
from paceline.workloads.mnist import LogisticMnist

MOST_MORE_S = 1.0
PAIR: dict[str, Any] = {
    **LOGISTIC,
    "strategy": "ps-sync",
    "num_workers": 3,
    "worker_steps": 1,
    "record": {"tensorboard": False},
}


def ready_s(num_workers: int, zygote: Zygote | None = None) -> tuple[float, float]:
    """Seconds until all are ready, and how far apart they were."""
    spec = paceline.RunSpec(
        workload=LogisticMnist(), strategy=Solo(), num_workers=num_workers, worker_steps=1
    )
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(spec, out=out, zygote=zygote)
    assert result.startup_s is not None
    assert result.joining_s is not None
    return result.startup_s, result.joining_s


def say(title: str, values: list[float], most: float | None) -> None:
    median = statistics.median(values)
    wanted = (
        "" if most is None else f"; at most {most} wanted: {'met' if median <= most else 'MISSED'}"
    )
    print(
        f"{title}: {median:.2f} s ({min(values):.2f} to {max(values):.2f}, n={len(values)}){wanted}"
    )


def serve() -> None:
    """Carry out the runs that standard input names, one JSON object a line; tell how they began."""
    for line in sys.stdin:
        spec = paceline.RunSpec.from_table(json.loads(line))
        with tempfile.TemporaryDirectory() as out:
            result = paceline.run(spec, out=out)
        print(json.dumps({"startup_s": result.startup_s}), flush=True)


def by_turns(sides: Sequence[Checkout], pairs: int) -> list[list[float]]:
    """Seconds of each side's starts; the next pair begins with the other side."""
    found: list[list[float]] = [[], []]
    for number in range(pairs):
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            found[index].append(sides[index].run(PAIR)["startup_s"])
    return found


def compared(before: Sequence[float], after: Sequence[float]) -> tuple[list[str], bool]:
    """Say what both sides took, and whether the second is not slower."""
    ratio = Interval.of([late / early for early, late in zip(before, after, strict=True)])
    is_met = ratio.low <= 1.0
    lines = [
        f"{title}: {statistics.median(took):.3f} s ({min(took):.3f} to {max(took):.3f})"
        for title, took in (("before", before), ("after", after))
    ]
    title = "start of ps-sync with 3 workers, after over before"
    lines.append(f"{title}: {ratio}; at most 1 wanted: {'met' if is_met else 'MISSED'}")
    return lines, is_met


def compare(before: str, after: str, pairs: int) -> bool:
    sides = [Checkout(each, script=__file__) for each in (before, after)]
    for side in sides:
        side.run(PAIR)  # what is read from the disk is in memory then
    lines, is_met = compared(*by_turns(sides, pairs))
    for side in sides:
        side.end()
    print(*lines, sep="\n")
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--before", help="python of a checkout to compare with")
    parser.add_argument("--after", default=sys.executable, help="python of this one")
    parser.add_argument("--pairs", type=int, default=15)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
    elif arguments.before:
        return 0 if compare(arguments.before, arguments.after, arguments.pairs) else 1
    else:
        of_six(arguments.repetitions)
    return 0


def of_six(repetitions: int) -> None:
    """Compare six workers with one."""
    one: list[float] = []
    six: list[float] = []
    apart: list[float] = []
    after: list[float] = []
    with Zygote() as zygote:
        ready_s(1, zygote)
        for _ in range(repetitions):
            one.append(ready_s(1)[0])
            after.append(ready_s(1, zygote)[0])
            ready, spread = ready_s(6)
            six.append(ready)
            apart.append(spread)
    say("one worker ready after", one, None)
    say("one worker ready after, the next of several", after, None)
    say("six workers ready after", six, None)
    say("six workers ready, apart", apart, MOST_MORE_S)
    more = [many - few for many, few in zip(six, one, strict=True)]
    say("six workers, more than one takes", more, MOST_MORE_S)


if __name__ == "__main__":
    sys.exit(main())
