"""Does a convolutional network learn? ResNet-20 on full CIFAR-10, twelve epochs, one worker.

    paceline data get cifar10
    python benchmarks/learning_curve.py [--epochs 12] [--seed 0] [--threads 1]

Prints accuracy and loss on all test rows after each epoch. Takes an hour of one core.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import polars

import paceline
from paceline.training.optim import Sgd
from paceline.training.schedules import Cosine
from paceline.workloads.cifar import Resnet20Cifar10

BATCH = 128
STEPS_PER_EPOCH = 50_000 // BATCH
WANTED = 0.8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    spec = paceline.RunSpec(
        workload=Resnet20Cifar10(),
        optimizer=Sgd(
            lr=0.1,
            momentum=0.9,
            weight_decay=1e-4,
            schedule=Cosine(end_step=given.epochs * STEPS_PER_EPOCH, warmup_steps=200),
        ),
        batch=BATCH,
        epochs=given.epochs,
        eval_every=STEPS_PER_EPOCH,
        seed=given.seed,
        threads=given.threads,
    )
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(spec, out=out)
        show(polars.read_parquet(Path(result.run) / "evaluations.parquet"))
    best = result.test_accuracy or 0.0
    verdict = "met" if best >= WANTED else "MISSED"
    print(f"final test accuracy {100 * best:.2f} %; wanted {100 * WANTED:g} %: {verdict}")


def show(evaluations: polars.DataFrame) -> None:
    print("| epoch | test accuracy | among the first five | test loss |")
    print("| --- | --- | --- | --- |")
    for row in evaluations.iter_rows(named=True):
        epoch = row["progress"] / STEPS_PER_EPOCH
        shares = f"{100 * row['accuracy']:.2f} % | {100 * row['top5']:.2f} %"
        print(f"| {epoch:g} | {shares} | {row['loss']:.4f} |")


if __name__ == "__main__":
    main()
