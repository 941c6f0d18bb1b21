"""One real step of each convolutional network, and what memory it takes.

    paceline data get cifar10
    python benchmarks/cnn_memory.py [--steps 1] [--batch 32] [NAME ...]

Forward, backward and update on CIFAR-10 under `single`, and under `ps-sync` and `ring` with two
workers. Prints the loss, which must be finite, the peak of each worker's resident memory, shared
memory included, and the peak of all seats together, where shared memory counts once.
"""

from __future__ import annotations

import argparse
import tempfile

import paceline
from paceline.strategies import STRATEGIES
from paceline.workloads import WORKLOADS

NAMES = [name for name in WORKLOADS.entries if name.endswith("-cifar10")]
MOST_BYTES = 12e9
# The largest network at its worst: two workers of it must fit.
LARGEST = "vgg19-cifar10"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("names", nargs="*", default=NAMES)
    given = parser.parse_args()
    print("| network | strategy | loss | peak of each worker, MB | peak of all seats, MB |")
    print("| --- | --- | --- | --- | --- |")
    for name in given.names:
        for strategy in ("single", "ps-sync", "ring"):
            result = one(name, strategy, given.steps, given.batch)
            print(line(result), flush=True)
            if name == LARGEST and strategy != "single":
                peak = result.nodes[0].memory_peak_bytes or 0
                assert peak < MOST_BYTES, "two workers of VGG19 do not fit in 12 GB"


def one(name: str, strategy: str, steps: int, batch: int) -> paceline.Result:
    spec = paceline.RunSpec(
        workload=WORKLOADS.build({"name": name}),
        strategy=STRATEGIES.build({"name": strategy}),
        num_workers=1 if strategy == "single" else 2,
        batch=batch,
        steps=steps,
        eval_samples=32,
        threads=1,
        record=paceline.Record(model=False, tensorboard=False, monitor_s=0.05),
    )
    with tempfile.TemporaryDirectory() as out:
        return paceline.run(spec, out=out)


def line(result: paceline.Result) -> str:
    assert result.final_loss is not None, "the loss is not finite"
    workers = ", ".join(f"{(each.memory_peak_bytes or 0) / 1e6:,.0f}" for each in result.workers)
    together = (result.nodes[0].memory_peak_bytes or 0) / 1e6
    cells = (result.workload, result.strategy, f"{result.final_loss:.3f}", workers)
    return f"| {' | '.join(cells)} | {together:,.0f} |"


if __name__ == "__main__":
    main()
