"""One, two and three workers of `mnist-logistic`: time of each, time, loss and accuracy of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from paceline.exhibits.values import Column, Figure, Table
from paceline.store.stored import StoredRun
from paceline.studies import charts, medians
from paceline.studies.evidence import Evidence
from paceline.studies.measures import median, of
from paceline.studies.mnist_sides import ASYNC, SYNC, train_s

TIME_PER_WORKER: Final = "time-per-worker"
WORKERS: Final = "workers"
_MODES: Final = {"async": ASYNC, "sync": SYNC}
_COUNTS: Final = (2, 3)
# Bhat et al., single node, batch 75, 10 epochs: loss, accuracy.
_SINGLE: Final = (0.33, 0.9013)


def time_per_worker(evidence: Evidence) -> Figure:
    """Training time of each worker, two and three of them (Bhat et al., figure 3)."""
    sides = _sides(evidence)
    rows = [
        {"run": label, "worker": name, "train_s": seconds}
        for label, runs in sides.items()
        for name, seconds in _times(runs).items()
    ]
    return charts.over(
        TIME_PER_WORKER,
        "Training time per worker, 2 and 3 workers, equal steps, batch 75 (Bhat et al., fig. 3)",
        rows,
        Column(name="worker", label="worker"),
        Column(name="train_s", label="training time", unit="s", form=".2f"),
        by={label: runs[0].result.strategy for label, runs in sides.items()},
        caption="Medians over seeds, the same epochs in all: three workers make fewer steps each.",
        runs={label: runs[0] for label, runs in sides.items()},
    )


def by_workers(evidence: Evidence) -> Table:
    """Time, loss and accuracy on a single node, and with two and three workers in both modes."""
    sides = {"single": evidence.need("single"), **_sides(evidence)}
    rows = [_row(label, runs) for label, runs in sides.items()]
    rows[0] |= {"said_loss": _SINGLE[0], "said_accuracy": _SINGLE[1]}
    percent: dict[str, Any] = {"unit": "%", "form": ".2f", "scale": 100.0}
    columns = [
        Column(name="side", label="batch 75, 10 epochs"),
        *medians.columns(
            [
                Column(name="time", label="training", unit="s", form=",.2f"),
                Column(name="loss", label="test loss", form=".4f"),
                Column(name="accuracy", label="test accuracy", **percent),
            ]
        ),
        medians.SEEDS,
        Column(name="said_loss", label="loss, Bhat et al.", form=".2f", published=True),
        Column(name="said_accuracy", label="test accuracy, Bhat et al.", published=True, **percent),
    ]
    note = f"{medians.NOTE}Bhat et al. publish figures of the single node only."
    shown = [run for runs in sides.values() for run in runs]
    title = "Single node, two and three workers (Bhat et al.)"
    return charts.side_by_side(WORKERS, title, rows, columns, note=note, runs=shown)


def _sides(evidence: Evidence) -> dict[str, list[StoredRun]]:
    """Give the runs of both modes with two and three workers, those that are there."""
    sides = {
        f"{mode}, {count} workers": runs
        for mode, strategy in _MODES.items()
        for count in _COUNTS
        if (runs := evidence.find("pair", strategy=strategy, num_workers=count))
    }
    if not sides:
        raise evidence.lacking("pair")
    return sides


def _times(runs: Sequence[StoredRun]) -> dict[str, float]:
    """Give the training time of each worker by its name, the median over seeds."""
    names = [each.name for each in runs[0].result.workers]
    found = {name: [_time_of(name, run) for run in runs] for name in names}
    return {name: median(times) for name, times in found.items()}


def _time_of(name: str, run: StoredRun) -> float | None:
    return next((each.train_s for each in run.result.workers if each.name == name), None)


def _row(label: str, runs: Sequence[StoredRun]) -> dict[str, Any]:
    measured = medians.of_seeds(
        time=of(runs, train_s),
        loss=of(runs, lambda run: run.result.test_loss),
        accuracy=of(runs, lambda run: run.result.test_accuracy),
    )
    return {"side": label, **measured, "n": len(runs)}
