"""Runs with a bottleneck that was put there, and the truth about it.

Every bottleneck is real: a link that is shaped, a device that sleeps longer, a server whose cores
are capped, a reader that is slow, a disk that the kernel throttles.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paceline
from paceline.outcome.results import Result
from paceline.spec import RunSpec
from paceline.testing.workloads import Burdened

SECONDS = 4.0
_BLKIO = Path("/sys/fs/cgroup/blkio")
_FILE_BYTES = 16 << 20


@dataclass(frozen=True)
class Shape:
    """A size of run that only computes, unless something is put in its way."""

    num_workers: int
    model_bytes: int
    link: str
    compute_ms: float
    """A row's; a batch has eight."""
    slow_link: str
    server_cpus: float

    def __str__(self) -> str:
        return f"{self.num_workers} workers, {self.model_bytes // 1000} kB, {self.link}"


# Rules and thresholds were made with these before the eyes,
TUNED_SHAPES = (
    Shape(2, 400_000, "1gbit", 5.0, "15mbit", 0.03),
    Shape(3, 40_000, "100mbit", 6.0, "1mbit", 0.02),
    Shape(4, 200_000, "500mbit", 8.0, "8mbit", 0.03),
)
# and these were first run when they stood.
JUDGED_SHAPES = (
    Shape(2, 100_000, "200mbit", 7.0, "4mbit", 0.025),
    Shape(3, 300_000, "800mbit", 5.0, "10mbit", 0.03),
    Shape(4, 60_000, "250mbit", 9.0, "2mbit", 0.02),
)
HALVES = (TUNED_SHAPES, JUDGED_SHAPES)
STRATEGIES = ("ps-sync", "ps-async", "ring", "ddp")
WITH_SERVER = ("ps-sync", "ps-async", "ps-ssp")
# With several servers, of each half's shapes in their order.
_SEVERAL = ("ps-sync", "ps-async", "ps-sync")


@dataclass(frozen=True)
class Case:
    """One run, and what a verdict on it must say."""

    bottleneck: str
    strategy: str
    shape: Shape
    kind: str
    where: frozenset[str]
    """Any of these is right: what slows all alike has no one place."""
    workload: dict[str, Any] = field(default_factory=dict, hash=False)
    cluster: dict[str, Any] = field(default_factory=dict, hash=False)
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    disk_bytes_per_s: int | None = None

    @property
    def name(self) -> str:
        return f"{self.bottleneck} · {self.strategy} · {self.shape}"

    @property
    def is_judged(self) -> bool:
        """Which half a case is in: one to fix thresholds on, one to judge."""
        return self.shape in JUDGED_SHAPES

    def is_right(self, kind: str | None, where: str | None) -> bool:
        return kind == self.kind and (where in self.where or not self.where)

    def run(self) -> Result:
        with tempfile.TemporaryDirectory() as folder, self._disk(Path(folder)) as file:
            return paceline.run(self.spec(file), out=folder)

    def spec(self, file: Path | None = None) -> RunSpec:
        shape = self.shape
        burden = {"bytes": shape.model_bytes, "compute_ms": shape.compute_ms, **self.workload}
        if file is not None:
            burden["file"] = str(file)
        return RunSpec.from_table(
            {
                "workload": Burdened(**burden),
                "strategy": {"name": self.strategy, **self.options},
                "cluster": {"name": "emulated", "link": shape.link, **self.cluster},
                "num_workers": shape.num_workers,
                "seconds": SECONDS,
                "eval_samples": 8,
                "record": {"tensorboard": False, "model": False},
            }
        )

    @contextlib.contextmanager
    def _disk(self, folder: Path) -> Iterator[Path | None]:
        """Have this process and those it starts read no faster than the case says."""
        if self.disk_bytes_per_s is None:
            yield None
            return
        path = folder / "rows.bin"
        with path.open("wb") as file:
            file.write(os.urandom(_FILE_BYTES))
            file.flush()
            os.fsync(file.fileno())
        group = _BLKIO / f"paceline-{os.getpid()}"
        group.mkdir()
        device = path.stat().st_dev
        limit = f"{os.major(device)}:{os.minor(device)} {self.disk_bytes_per_s}"
        try:
            (group / "blkio.throttle.read_bps_device").write_text(limit)
            (group / "cgroup.procs").write_text(str(os.getpid()))
            yield path
        finally:
            (_BLKIO / "cgroup.procs").write_text(str(os.getpid()))
            group.rmdir()


def cases() -> list[Case]:
    """Give all cases; disks are throttled only where cgroups of this machine can."""
    kinds = [_nothing, _links, _stragglers, _servers, _reading, _spread, _one_of_two_servers]
    if _BLKIO.is_dir():
        kinds.append(_disks)
    return [case for shapes in HALVES for kind in kinds for case in kind(shapes)]


def _workers(shape: Shape) -> frozenset[str]:
    return frozenset(f"worker{rank}" for rank in range(shape.num_workers))


def _nothing(shapes: Sequence[Shape]) -> Iterator[Case]:
    for strategy in (*STRATEGIES, "ps-ssp"):
        for shape in shapes:
            options = {"staleness": 1} if strategy == "ps-ssp" else {}
            yield Case("nothing", strategy, shape, "compute", _workers(shape), options=options)


def _links(shapes: Sequence[Shape]) -> Iterator[Case]:
    """The node of the server, or of a worker; in a ring they are alike."""
    for strategy in STRATEGIES:
        for number, shape in enumerate(shapes):
            node = f"node{number % 2}"
            links = {"links": {node: shape.slow_link}}
            where = frozenset({node})
            yield Case(f"link of {node}", strategy, shape, "link", where, cluster=links)


def _stragglers(shapes: Sequence[Shape]) -> Iterator[Case]:
    for strategy in (*STRATEGIES, "ps-ssp"):
        for number, shape in enumerate(shapes):
            rank = (number + 1) % shape.num_workers
            burden = {"slow_rank": rank, "slow_backward_ms": 3 * 8 * shape.compute_ms}
            where = frozenset({f"worker{rank}"})
            options = {"staleness": 1} if strategy == "ps-ssp" else {}
            yield Case(
                f"worker{rank}",
                strategy,
                shape,
                "straggler",
                where,
                workload=burden,
                options=options,
            )


def _servers(shapes: Sequence[Shape]) -> Iterator[Case]:
    for strategy in WITH_SERVER:
        for shape in shapes:
            node = f"node{shape.num_workers}"
            options: dict[str, Any] = {"placement": "separate"}
            if strategy == "ps-ssp":
                options["staleness"] = 1
            yield Case(
                "server",
                strategy,
                shape,
                "server",
                frozenset({"server0"}),
                workload={"compute_ms": 0.5},
                cluster={"cpus": {node: shape.server_cpus}},
                options=options,
            )


def _spread(shapes: Sequence[Shape]) -> Iterator[Case]:
    """A server beside every worker."""
    for number, shape in enumerate(shapes):
        node, rank = f"node{number % 2}", (number + 1) % shape.num_workers
        slow_ms = 3 * 8 * shape.compute_ms
        found: dict[str, tuple[str, frozenset[str], dict[str, Any]]] = {
            "nothing": ("compute", _workers(shape), {}),
            f"link of {node}": (
                "link",
                frozenset({node}),
                {"cluster": {"links": {node: shape.slow_link}}},
            ),
            f"worker{rank}": (
                "straggler",
                frozenset({f"worker{rank}"}),
                {"workload": {"slow_rank": rank, "slow_backward_ms": slow_ms}},
            ),
        }
        for bottleneck, (kind, where, put_there) in found.items():
            yield Case(
                f"{bottleneck}, spread",
                _SEVERAL[number],
                shape,
                kind,
                where,
                options={"servers": "auto"},
                **put_there,
            )


def _one_of_two_servers(shapes: Sequence[Shape]) -> Iterator[Case]:
    for number, shape in enumerate(shapes):
        yield Case(
            "server1 of two",
            _SEVERAL[number],
            shape,
            "server",
            frozenset({"server1"}),
            workload={"compute_ms": 0.5},
            cluster={"cpus": {f"node{shape.num_workers + 1}": shape.server_cpus}},
            options={"placement": "separate", "servers": 2},
        )


def _reading(shapes: Sequence[Shape]) -> Iterator[Case]:
    """All workers read slowly, or one does."""
    for strategy in STRATEGIES:
        for number, shape in enumerate(shapes):
            slow_ms = 3 * 8 * shape.compute_ms
            if number % 2 == 0:
                burden, where = {"load_ms": slow_ms}, _workers(shape)
            else:
                burden, where = {"slow_load_ms": slow_ms, "slow_rank": 1}, frozenset({"worker1"})
            yield Case("reading", strategy, shape, "input", where, workload=burden)


def _disks(shapes: Sequence[Shape]) -> Iterator[Case]:
    for strategy in STRATEGIES:
        for shape in shapes:
            yield Case(
                "disk",
                strategy,
                shape,
                "input",
                _workers(shape),
                workload={"read_bytes": 1 << 18},
                disk_bytes_per_s=1_000_000,
            )
