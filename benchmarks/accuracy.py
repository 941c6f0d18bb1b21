"""Does it learn? The two models on full MNIST, as Bhat et al. trained the first.

    paceline data get mnist
    python benchmarks/accuracy.py

Prints test accuracy and loss over three seeds.
"""

from __future__ import annotations

import statistics
import tempfile

import paceline
from paceline.training.optim import Optimizer, Sgd
from paceline.training.schedules import Cosine
from paceline.workloads.base import Workload
from paceline.workloads.mnist import LenetMnist, LogisticMnist

SEEDS = (0, 1, 2)
CASES: tuple[tuple[str, Workload, int, int, Optimizer, float], ...] = (
    (
        "logistic-mnist, batch 75, 10 epochs, lr 0.01",
        LogisticMnist(subset="full"),
        75,
        10,
        Sgd(lr=0.01),
        0.90,
    ),
    (
        "lenet-mnist, batch 64, 8 epochs, lr 0.02 along a cosine, momentum 0.9",
        LenetMnist(subset="full"),
        64,
        8,
        Sgd(lr=0.02, momentum=0.9, schedule=Cosine(end_step=8 * (60_000 // 64))),
        0.988,
    ),
)


def main() -> None:
    for title, workload, batch, epochs, optimizer, wanted in CASES:
        results = []
        for seed in SEEDS:
            spec = paceline.RunSpec(
                workload=workload,
                batch=batch,
                epochs=epochs,
                optimizer=optimizer,
                seed=seed,
                threads=1,
            )
            with tempfile.TemporaryDirectory() as out:
                results.append(paceline.run(spec, out=out))
        accuracies = [result.test_accuracy or 0.0 for result in results]
        median = statistics.median(accuracies)
        losses = ", ".join(f"{result.final_loss:.3f}" for result in results)
        verdict = "met" if min(accuracies) >= wanted else "MISSED"
        print(
            f"{title}: test accuracy {100 * median:.2f} % ({100 * min(accuracies):.2f} to "
            f"{100 * max(accuracies):.2f}, n={len(SEEDS)}); training loss {losses}; "
            f"wanted {100 * wanted:g} %: {verdict}",
            flush=True,
        )


if __name__ == "__main__":
    main()
