"""Sparse training on rows of Criteo's shape, batch 100, 33.7 million weights: rows/s as ratios.

    python benchmarks/sparse_rows.py --before ../before/.venv/bin/python [--repetitions 5]

With everything else that small and sparse models are measured by: small_and_sparse.py.

Rows are generated once into the cache folder, converted beside their TFRecord files. With --before,
the python of another checkout, `single` from converted rows and from TFRecord files (one epoch) is
measured against it, by turns. Without it: Adagrad's time over SGD's; and the second and third
epochs of TFRecord files, whose rows are kept converted, over the same epochs of converted rows
(wanted: as fast, within 5 %). The first one, which parses, is left out of both.
`ps-async` with three workers is measured over TensorFlow, on the same rows, by
`make bench-peers ONLY=tensorflow-skewed`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import polars
import skewed_rows
from before_after import Checkout
from ratios import Ratio, alternate

import paceline
from paceline.spec import RunSpec
from paceline.store.runs import RunDir

RATES = Path(__file__).with_name("before_after.py")
WANTED_SINGLE, WANTED_FILES, WANTED_LATER, MOST_ADAGRAD = 1.7, 3.0, 0.95, 1.3
NUM_EPOCHS = 3


def spec(workload: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "workload": {"name": "logistic-criteo", "test_rows": skewed_rows.TEST_ROWS, **workload},
        "strategy": "single",
        "optimizer": {"name": "sgd", "lr": 0.05},
        "batch": 100,
        "threads": 1,
        "record": {"tensorboard": False, "model": False},
        "eval_samples": 100,
        **fields,
    }


def rows_per_s(side: Checkout, table: dict[str, Any]) -> float:
    rate: float = side.run(table)["steps_per_s"]
    return 100 * rate


def later_rows_per_s(workload: dict[str, Any]) -> float:
    """Rows per second of training time from the second epoch on."""
    record = {"tensorboard": False, "model": False, "interval_s": 0.05}
    table = spec(workload, epochs=NUM_EPOCHS, record=record)
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(RunSpec.from_table(table), out=out)
        rows = polars.read_parquet(RunDir(Path(result.run)).steps).sort("time_s")
    num_first = result.worker_steps // NUM_EPOCHS
    later = rows.filter(polars.col("worker_steps") >= num_first)
    num_steps = later["worker_steps"][-1] - later["worker_steps"][0]
    rate: float = 100 * num_steps / (later["time_s"][-1] - later["time_s"][0])
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", help="python of the checkout to compare with")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    made = skewed_rows.made(arguments.rows)
    converted, files = made.workload(made.converted), made.workload(made.files)
    long = {"seconds": arguments.seconds}
    adagrad = {"optimizer": {"name": "adagrad", "lr": 0.05}}
    now = Checkout(sys.executable, script=str(RATES))

    def ratio(title: str, ours: dict[str, Any], side: Checkout, theirs: dict[str, Any]) -> Ratio:
        for each, table in ((now, ours), (side, theirs)):
            rows_per_s(each, {**table, "seconds": 1.0, "epochs": None})  # files are read once
        first, second = partial(rows_per_s, now, ours), partial(rows_per_s, side, theirs)
        return alternate(title, first, second, arguments.repetitions)

    if arguments.before:
        before = Checkout(arguments.before, script=str(RATES))
        for name, fields in (("SGD", {}), ("Adagrad", adagrad)):
            table = spec(converted, **long, **fields)
            title = f"single, converted rows, {name}: rows/s over before"
            print(ratio(title, table, before, table).line(WANTED_SINGLE), flush=True)
            table = {**table, "strategy": "ps-async", "num_workers": 3}
            title = f"ps-async with 3 workers, converted rows, {name}: rows/s over before"
            print(ratio(title, table, before, table).line(1.0), flush=True)
        table = spec(files, epochs=1)
        title = "single, TFRecord files, first epoch: rows/s over before"
        print(ratio(title, table, before, table).line(WANTED_FILES), flush=True)
        before.end()
    sgd = spec(converted, **long)
    title = "single, converted rows: SGD's rows/s over Adagrad's"
    print(ratio(title, sgd, now, spec(converted, **long, **adagrad)).line(0.0, MOST_ADAGRAD))
    kept = {"source": "generated", "rows": arguments.rows}
    title = "single, TFRecord files from the second epoch on, over converted rows: rows/s"
    of_files, of_rows = (partial(later_rows_per_s, each) for each in (kept, converted))
    later = alternate(title, of_files, of_rows, arguments.repetitions)
    print(later.line(WANTED_LATER), flush=True)
    now.end()


if __name__ == "__main__":
    main()
