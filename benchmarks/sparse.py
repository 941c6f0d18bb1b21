"""What sparse training costs, against scikit-learn on the same rows; how fast text is read.

    python benchmarks/sparse.py [--peers .venv-peers/bin/python] [--only scikit,text,auc,memory]

Rows are generated in Criteo's shape (see docs/guide/sparse-data.md), once, into the cache folder,
and converted. `single` trains on them at batch 1,000 with all 33,762,578 weights.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from ratios import alternate

import paceline
from paceline.strategies.local import Single
from paceline.workloads.criteo import LogisticCriteo
from paceline.workloads.data.sparse import criteo, features, shape
from paceline.workloads.data.sparse.convert import convert
from paceline.workloads.data.sparse.files import opened
from paceline.workloads.data.stream import prepared

QUIET = paceline.Record(tensorboard=False, model=False)
BATCH = 1000
CALL_ROWS = (1000, 10_000, 100_000, 400_000)
PEER_SECONDS = 5
WANTED_ROWS_PER_S = 200_000
WANTED_TEXT_ROWS_PER_S = 150_000
WANTED_AUC_GAP = 0.01
PARTS = ("scikit", "text", "auc", "memory")


def spread(values: list[float], wanted: float) -> str:
    median = statistics.median(values)
    verdict = "met" if median >= wanted else "MISSED"
    low, high = min(values), max(values)
    return (
        f"{median:,.0f} rows/s ({low:,.0f} to {high:,.0f}, n={len(values)}); "
        f"wanted {wanted:,.0f}: {verdict}"
    )


def silent(message: str, done: int, total: int) -> None:
    """Tell nobody."""


def generated(num_rows: int, folder: Path) -> LogisticCriteo:
    """Rows as converted arrays, training and test apart."""
    workload = LogisticCriteo(source="generated", rows=num_rows)
    print(f"generating and converting {num_rows:,} rows", flush=True)
    workload.prepare(silent)
    train, test = workload.paths()
    assert test is not None
    convert(train, folder / "train", progress=silent)
    convert(test, folder / "test", progress=silent)
    return LogisticCriteo(train=folder / "train", test=folder / "test")


def run(workload: LogisticCriteo, **fields: object) -> paceline.Result:
    spec = paceline.RunSpec(
        workload=workload,
        strategy=Single(),
        batch=BATCH,
        record=QUIET,
        **fields,  # type: ignore[arg-type]
    )
    with tempfile.TemporaryDirectory() as out:
        return paceline.run(spec, out=out)


def our_rows_per_s(workload: LogisticCriteo) -> float:
    result = run(workload, seconds=PEER_SECONDS, eval_samples=1000)
    assert result.samples_per_s is not None
    return result.samples_per_s


def scikit_rows_per_s(python: Path, workload: LogisticCriteo, call_rows: int) -> float:
    assert workload.train is not None
    script = Path(__file__).parent / "peers" / "scikit_sparse.py"
    numbers = (workload.num_weights(), call_rows, PEER_SECONDS)
    command = [str(each) for each in (python, script, workload.train / "rows.u4", *numbers)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def compare_with_scikit(python: Path, num_rows: int, repetitions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        workload = generated(num_rows, Path(folder))
        ours = partial(our_rows_per_s, workload)
        ours()  # the files are in memory from here on
        if not python.exists():
            print(f"no scikit-learn: {python} is not there")
            print(f"single: {spread([ours() for _ in range(repetitions)], WANTED_ROWS_PER_S)}")
            return
        theirs = partial(scikit_rows_per_s, python, workload, BATCH)
        title = "single over scikit-learn's partial_fit, 1,000 rows a step and a call"
        ratio = alternate(title, ours, theirs, repetitions)
        print(f"single: {spread(list(ratio.ours), WANTED_ROWS_PER_S)}")
        print(ratio.line(3.0), flush=True)
        for call_rows in CALL_ROWS:
            rate = scikit_rows_per_s(python, workload, call_rows)
            print(f"scikit-learn at {call_rows:,} rows a call: {rate:,.0f} rows/s", flush=True)


def text_of(num_rows: int) -> bytes:
    generator = np.random.default_rng(0)
    return shape.drawn(num_rows, generator).text(generator.integers(0, 2, num_rows))


def parsed_rows_per_s(path: Path, folder: Path) -> float:
    """Parse a file on two threads, as a conversion does."""
    (file,) = opened(path, folder)
    began, num_rows = time.perf_counter(), 0

    def parse(block: object) -> int:
        lines = file.read(block)  # type: ignore[arg-type]
        found = criteo.parse(b"\n".join([*lines, b""]))
        features.hashed(found.keys)
        return len(found.labels)

    for count in prepared(parse, file.blocks, threads=2, ahead=4):
        num_rows += count
    return num_rows / (time.perf_counter() - began)


def measure_text(repetitions: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "rows.tsv"
        path.write_bytes(text_of(100_000) * 5)
        rates = [parsed_rows_per_s(path, folder) for _ in range(repetitions)]
        print(f"text parsed: {spread(rates, WANTED_TEXT_ROWS_PER_S)}", flush=True)
        convert(path, folder / "out", progress=silent, data_dir=folder)
        text, arrays = (
            partial(our_rows_per_s, LogisticCriteo(train=each, memory_bytes=1, data_dir=folder))
            for each in (path, folder / "out")
        )
        title = "rows/s trained from converted rows over those from text"
        print(alternate(title, arrays, text, repetitions).line(1.0), flush=True)


def measure_auc(num_rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        workload = generated(num_rows, Path(folder))
        planted = LogisticCriteo(source="generated", rows=num_rows).planted_auc()
        result = run(workload, epochs=1)
    auc = result.test_metrics["auc"]
    verdict = "met" if planted - auc <= WANTED_AUC_GAP else "MISSED"
    print(
        f"AUC after {result.samples:,} rows: {auc:.4f}, the planted model's own {planted:.4f}; "
        f"wanted within {WANTED_AUC_GAP}: {verdict}; {result.samples_per_s:,.0f} rows/s",
        flush=True,
    )


def measure_memory(num_rows: int) -> None:
    """Peak memory of a worker as the rows become four times as many."""
    for title, use in (("streamed", _streamed), ("converted", _converted)):
        peaks = [use(count) for count in (num_rows, 4 * num_rows)]
        grown = (peaks[1] - peaks[0]) / 1e6
        print(
            f"memory of a worker, {title}: {peaks[0] / 1e6:,.0f} MB with {num_rows:,} rows, "
            f"{peaks[1] / 1e6:,.0f} MB with {4 * num_rows:,}: {grown:+.0f} MB",
            flush=True,
        )


def _streamed(num_rows: int) -> int:
    return _peak(LogisticCriteo(source="generated", rows=num_rows))


def _converted(num_rows: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return _peak(generated(num_rows, Path(folder)))


def _peak(workload: LogisticCriteo) -> int:
    peak = run(workload, epochs=1, eval_samples=1000).nodes[0].memory_peak_bytes
    assert peak is not None
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers/bin/python"))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--auc-rows", type=int, default=5_000_000)
    parser.add_argument("--only", default=",".join(PARTS))
    arguments = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "scikit": lambda: compare_with_scikit(
            arguments.peers, arguments.rows, arguments.repetitions
        ),
        "text": lambda: measure_text(arguments.repetitions),
        "auc": lambda: measure_auc(arguments.auc_rows),
        "memory": lambda: measure_memory(arguments.rows),
    }
    for name in arguments.only.split(","):
        parts[name]()


if __name__ == "__main__":
    main()
