"""Who is compared with whom, and how each is started and asked for its rate."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import skewed_rows
from bounded import last_line
from skewed_rows import SkewedRows

BATCH = 75
SPARSE_BATCH = 100
QUIET = "threads=1 record.tensorboard=false record.model=false"
SPARSE = "workload.features=33762578 workload.nonzeros=39 workload.rows=30000"
SKEWED = "workload.train={rows.converted} workload.test={rows.test}"
# A result's steady rate leaves out the first tenth of a run's time.
STEADY_PART = 0.9
# Importing TensorFlow alone takes half a minute on a busy machine.
DEADLINE_S = 240.0
PEERS_ENVIRONMENT = {
    "PYTHONPATH": str(Path(__file__).resolve().parent),
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "TP_SOCKET_IFNAME": "lo",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True)
class Bench:
    """Where things are, and how long each is timed."""

    peers_python: Path
    data_dir: Path
    """Paceline's cache folder."""
    warm_up_s: float
    seconds: float

    @cached_property
    def rows(self) -> SkewedRows:
        """Rows of Criteo's shape, made when somebody first wants them."""
        return skewed_rows.made()

    def filled(self, options: str) -> list[str]:
        """Options as words, with the places of rows in them."""
        return [word.format(rows=self.rows) if "{" in word else word for word in options.split()]


@dataclass(frozen=True)
class Measured:
    """A rate, and the settings it was reached with."""

    rate: float
    setting: str


@dataclass(frozen=True)
class Contender(ABC):
    """A way to train the model: a program that is started anew for each measurement."""

    name: str
    unit: str

    @abstractmethod
    def measure(self, bench: Bench) -> Measured:
        """Give its steady rate; raises `DidNotRun`."""


@final
@dataclass(frozen=True)
class Ours(Contender):
    """`paceline run`, as a user starts it."""

    options: str
    samples_a_unit: int

    def measure(self, bench: Bench) -> Measured:
        workload, *options = bench.filled(self.options)
        command = [sys.executable, "-m", "paceline", "run", workload]
        command += ["--seconds", str((bench.warm_up_s + bench.seconds) / STEADY_PART)]
        command += ["--eval-samples", "100", "--json"]
        if workload.endswith("mnist"):
            command += ["--data-dir", str(bench.data_dir)]
        command += [*options, "--set", *QUIET.split()]
        result = last_line(command, DEADLINE_S)
        return Measured(result["steady_samples_per_s"] / self.samples_a_unit, result["meaning"])


@final
@dataclass(frozen=True)
class Peer(Contender):
    """A program of the peers' environment."""

    options: str

    def measure(self, bench: Bench) -> Measured:
        program, *options = bench.filled(self.options)
        command = [str(bench.peers_python), "-m", f"peers.{program}", *options]
        command += ["--data", str(bench.data_dir / "mnist")]
        command += ["--warm-up-s", str(bench.warm_up_s), "--seconds", str(bench.seconds)]
        return Measured(**last_line(command, DEADLINE_S, PEERS_ENVIRONMENT))


@dataclass(frozen=True)
class Comparison:
    """Ours over a peer's; `wanted` is what the project set itself, if it did."""

    ours: str
    peer: str
    wanted: float | None = None


GLOBAL_STEPS, UPDATES, WORKER_STEPS = "global steps/s", "updates/s", "worker steps/s"
ROWS = "rows/s"
_LOGISTIC = "logistic-mnist --strategy"

CONTENDERS: tuple[Contender, ...] = (
    Ours("paceline-solo", WORKER_STEPS, f"{_LOGISTIC} solo --workers 3", BATCH),
    Ours("paceline-async", GLOBAL_STEPS, f"{_LOGISTIC} ps-async --workers 3", BATCH),
    Ours("paceline-sync", UPDATES, f"{_LOGISTIC} ps-sync --workers 3", 3 * BATCH),
    Ours("paceline-sync-2", UPDATES, f"{_LOGISTIC} ps-sync --workers 2", 2 * BATCH),
    Ours("paceline-ring", UPDATES, f"{_LOGISTIC} ring --workers 3", 3 * BATCH),
    Ours("paceline-ring-2", UPDATES, f"{_LOGISTIC} ring --workers 2", 2 * BATCH),
    Ours(
        "paceline-sparse",
        ROWS,
        f"synthetic --strategy ps-async --workers 3 --batch {SPARSE_BATCH} --set {SPARSE}",
        1,
    ),
    Ours(
        "paceline-skewed",
        ROWS,
        "logistic-criteo --strategy ps-async --workers 3 --lr 0.01 "
        f"--batch {SPARSE_BATCH} --set optimizer=sgd {SKEWED}",
        1,
    ),
    Peer("tensorflow-async", GLOBAL_STEPS, "tensorflow_ps --steps 1"),
    Peer("tensorflow-async-100", GLOBAL_STEPS, "tensorflow_ps --steps 100"),
    Peer("torch-rpc", GLOBAL_STEPS, "torch_rpc"),
    Peer("ray", GLOBAL_STEPS, "ray_actor"),
    Peer("tensorflow-sync", UPDATES, "tensorflow_mirrored"),
    Peer("torch-ddp", UPDATES, "torch_ddp --workers 3"),
    Peer("torch-ddp-2", UPDATES, "torch_ddp --workers 2"),
    Peer("tensorflow-sparse", ROWS, "tensorflow_sparse"),
    Peer("tensorflow-skewed", ROWS, "tensorflow_sparse --rows {rows.matrix}"),
)

COMPARISONS = (
    Comparison("paceline-async", "paceline-solo", 0.8),
    Comparison("paceline-async", "tensorflow-async"),
    Comparison("paceline-async", "tensorflow-async-100", 8),
    Comparison("paceline-async", "torch-rpc"),
    Comparison("paceline-async", "ray"),
    Comparison("paceline-sync", "tensorflow-sync", 5),
    Comparison("paceline-sync", "torch-ddp"),
    Comparison("paceline-sync-2", "torch-ddp-2"),
    Comparison("paceline-ring", "torch-ddp", 5),
    Comparison("paceline-ring-2", "torch-ddp-2"),
    Comparison("paceline-sparse", "tensorflow-sparse", 8),
    Comparison("paceline-skewed", "tensorflow-skewed", 8),
)
