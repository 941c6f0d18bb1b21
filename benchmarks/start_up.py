"""How long starting takes: six workers until all are ready.

    python benchmarks/start_up.py [--repetitions 5]

"Ready" is when the driver has heard from every seat and says go. Six workers are compared with
one: the difference is what five more forks, models and data sets cost. "Apart" is the time from
the first seat that is ready to the last. "The next of several" is a run that finds torch imported,
as all but the first of a comparison or a study do.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile

import paceline
from paceline.clusters.zygote import Zygote
from paceline.strategies.local import Solo
from paceline.workloads.mnist import LogisticMnist

MOST_MORE_S = 1.0


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    repetitions = parser.parse_args().repetitions
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
    main()
