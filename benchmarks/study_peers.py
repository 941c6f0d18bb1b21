"""Peers of the claims S6 and S7: scikit-learn on MNIST and Spark on sparse rows, and we, in turns.

    python benchmarks/study_peers.py --peers .venv-peers/bin/python --out runs [--only spark-sgd]

Each peer trains first; then `single` trains on the same rows until its log loss on the test rows is
the one that the peer reached. Reading rows, starting and evaluating are not timed, for neither.
One that has not come there when its time is over has missed it, and the ratio is a bound.
`peers.json` in the folder of all runs is what `paceline study criteo-sparse` takes up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bounded import DidNotRun, TookTooLong, last_line
from contenders import PEERS_ENVIRONMENT

import paceline
from paceline.store.whole_files import write_atomically
from paceline.strategies.local import Single
from paceline.studies.evidence import PEERS
from paceline.workloads.base import Workload
from paceline.workloads.criteo import NUM_COLUMNS, LogisticCriteo
from paceline.workloads.data.catalogue import default_data_dir
from paceline.workloads.data.sparse.convert import convert
from paceline.workloads.mnist import LogisticMnist

QUIET = paceline.Record(tensorboard=False, model=False, monitor=False)
DEADLINE_S = 1800.0
# What `logistic-mnist` has after ten epochs at batch 75: the claim's own setting.
MNIST_LOG_LOSS = 0.343
ENVIRONMENT = PEERS_ENVIRONMENT | {"OMP_NUM_THREADS": "2", "SPARK_LOCAL_IP": "127.0.0.1"}


def silent(message: str, done: int, total: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Ours:
    """How long we took to a log loss on the test rows, or what we did without coming there."""

    seconds: float
    log_loss: float
    missed: bool = False


def our_time(workload: Workload, log_loss: float | None, *, batch: int, look: int) -> Ours:
    """Train until a loss is reached, 40 epochs at most; without one, for one epoch."""
    spec = paceline.RunSpec(
        workload=workload,
        strategy=Single(),
        batch=batch,
        epochs=1 if log_loss is None else 40,
        target_loss=log_loss,
        eval_every=look,
        record=QUIET,
    )
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(spec, out=out)
    if result.train_s is None or result.test_loss is None:
        raise DidNotRun("we trained without being timed or tested")
    if log_loss is None:
        return Ours(result.train_s, result.test_loss)
    if result.seconds_to_target is None:
        return Ours(result.train_s, log_loss, missed=True)
    return Ours(result.seconds_to_target, log_loss)


def a_turn(peer: dict[str, Any], ours: Ours) -> dict[str, Any]:
    """One turn: a peer that came to no log loss at all, or to a worse one than we, has missed it.

    Given up are its `seconds` then, and the log loss is ours.
    """
    told = {"peer": peer | {"log_loss": ours.log_loss}, "ours_s": ours.seconds}
    if peer["log_loss"] is None or peer["log_loss"] > ours.log_loss:
        if ours.missed:
            raise DidNotRun(f"neither came to a log loss of {ours.log_loss:.4f}")
        return told | {"missed": "peer"}
    return told | ({"missed": "ours"} if ours.missed else {})


def peers_time(command: list[str], called: str) -> dict[str, Any]:
    """Let a peer train; one that is not done in time has no log loss."""
    try:
        return last_line(command, DEADLINE_S, ENVIRONMENT)
    except TookTooLong as late:
        return {"seconds": late.deadline_s, "log_loss": None, "setting": f"{called}, given up"}


def with_scikit(python: Path, data_dir: Path) -> dict[str, Any]:
    """One turn on the dense rows of MNIST."""
    command = [str(python), "-m", "peers.scikit_dense", "--data", str(data_dir / "mnist")]
    peer = peers_time([*command, "--log-loss", str(MNIST_LOG_LOSS)], "LogisticRegression")
    reached = MNIST_LOG_LOSS if peer["log_loss"] is None else peer["log_loss"]
    mnist = LogisticMnist(subset="full", data_dir=data_dir)
    ours = our_time(mnist, min(reached, MNIST_LOG_LOSS), batch=75, look=200)
    return a_turn(peer, ours)


def with_spark(how: str, python: Path, rows: Rows, iterations: int) -> dict[str, Any]:
    """One turn on sparse rows."""
    command = [str(python), "-m", "peers.spark_logistic", how]
    command += ["--train", str(rows.train_text), "--test", str(rows.test_text)]
    command += ["--features", str(rows.num_features), "--iterations", str(iterations)]
    peer = peers_time(command, f"Spark {how}")
    return a_turn(peer, our_time(rows.workload, peer["log_loss"], batch=100, look=20))


class Rows:
    """The same generated rows as arrays, for us, and as libsvm text, for Spark."""

    def __init__(self, num_rows: int, num_features: int, folder: Path) -> None:
        generated = LogisticCriteo(source="generated", rows=num_rows, num_features=num_features)
        generated.prepare(silent)
        train, test = generated.paths()
        assert test is not None
        self.num_features = num_features
        self.train_text, self.test_text = folder / "train.svm", folder / "test.svm"
        for source, name, text in (
            (train, "train", self.train_text),
            (test, "test", self.test_text),
        ):
            convert(source, folder / name, progress=silent)
            _write_text(folder / name / "rows.u4", text)
        self.workload = LogisticCriteo(
            train=folder / "train", test=folder / "test", num_features=num_features
        )


def _write_text(arrays: Path, text: Path) -> None:
    """A feature that a row has twice counts twice there too."""
    with text.open("w") as file:
        for row in np.memmap(arrays, "<u4", "r").reshape(-1, NUM_COLUMNS + 1):
            features, counts = np.unique(row[1:], return_counts=True)
            pairs = zip(features + 1, counts, strict=True)
            file.write(f"{row[0]} {' '.join(f'{each}:{count}' for each, count in pairs)}\n")


def measured(turn: Callable[[], dict[str, Any]], name: str, repetitions: int) -> dict[str, Any]:
    """Take turns; gives the medians, or why there are none."""
    turns = []
    try:
        for number in range(repetitions):
            turns.append(turn())
            peer_s, ours_s = turns[-1]["peer"]["seconds"], turns[-1]["ours_s"]
            print(
                f"{number + 1} of {repetitions}: {name} {peer_s:.2f} s, we {ours_s:.2f} s",
                flush=True,
            )
    except DidNotRun as error:
        print(f"{name}: {error}", flush=True)
        return {"reason": str(error)}
    ratios = sorted(each["peer"]["seconds"] / each["ours_s"] for each in turns)
    missed = sorted({each["missed"] for each in turns if "missed" in each})
    if len(missed) > 1:
        return {"reason": "of its turns, some were missed by it and some by us"}
    return {
        "peer_s": statistics.median(each["peer"]["seconds"] for each in turns),
        "ours_s": statistics.median(each["ours_s"] for each in turns),
        "ratio": statistics.median(ratios),
        "ratio_low": ratios[0],
        "ratio_high": ratios[-1],
        "log_loss": statistics.median(each["peer"]["log_loss"] for each in turns),
        "setting": turns[-1]["peer"]["setting"],
        "n": len(turns),
        **({"missed": missed[0]} if missed else {}),
    }


def main() -> None:
    names = ("scikit-mnist", "spark-lbfgs", "spark-sgd")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peers", type=Path, required=True, help="the peers' python")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="the folder of all runs")
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=1_000_000)
    parser.add_argument("--data-dir", type=Path, default=default_data_dir())
    arguments = parser.parse_args()
    # Not resolved: python finds its environment by the link's own place.
    python = arguments.peers.absolute()
    path = arguments.out / PEERS
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        turns: dict[str, Callable[[], dict[str, Any]]] = {
            "scikit-mnist": lambda: with_scikit(python, arguments.data_dir)
        }
        if {"spark-lbfgs", "spark-sgd"} & set(arguments.only):
            rows = Rows(arguments.rows, arguments.features, Path(folder))
            turns["spark-lbfgs"] = lambda: with_spark("lbfgs", python, rows, 20)
            turns["spark-sgd"] = lambda: with_spark("sgd", python, rows, 100)
        for name in arguments.only:
            found[name] = measured(turns[name], name, arguments.repetitions)
            if name != "scikit-mnist" and "setting" in found[name]:
                found[name]["setting"] += (
                    f", {arguments.rows:,} generated rows, {arguments.features:,} features"
                )
            arguments.out.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(found, indent=2) + "\n")
    print(path)


if __name__ == "__main__":
    main()
