"""What it brings to ask for the next batch's rows while this one computes.

    python benchmarks/prefetch.py [--repetitions 5]

Rows per second of a sparse logistic regression by messages on loopback, with `prefetch` over those
without, in turn. One worker and one server have a core each on two; more workers than cores have
nothing to gain, because somebody else computes while one waits.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial

from ratios import alternate

import paceline
from paceline.clusters.local import Local
from paceline.strategies.parameter_server.describe import PsAsync
from paceline.workloads.synthetic import Synthetic

WORKLOAD = Synthetic(features=1_000_000, nonzeros=39, rows=30_000)


def rows_per_s(num_workers: int, *, prefetch: bool) -> float:
    spec = paceline.RunSpec(
        workload=WORKLOAD,
        strategy=PsAsync(prefetch=prefetch),
        cluster=Local(transport="zmq"),
        num_workers=num_workers,
        batch=100,
        worker_steps=1500,
        threads=1,
        eval_samples=100,
        record=paceline.Record(tensorboard=False, model=False),
    )
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(spec, out=out)
    assert result.samples_per_s is not None
    return result.samples_per_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    repetitions = parser.parse_args().repetitions
    for num_workers in (1, 3):
        ratio = alternate(
            f"sparse, zmq, ps-async, {num_workers} x prefetch",
            partial(rows_per_s, num_workers, prefetch=True),
            partial(rows_per_s, num_workers, prefetch=False),
            repetitions,
        )
        print(ratio.line(1.0), flush=True)


if __name__ == "__main__":
    main()
