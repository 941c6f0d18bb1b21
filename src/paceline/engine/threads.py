"""How many threads each worker's arithmetic has: as the cores and the workload allow, or measured.

A workload that does not say how many threads it gains from is stepped a few times with one thread
and with all that a worker could have, in a process of its own.
"""

from __future__ import annotations

import dataclasses
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from paceline.clusters.base import Crew, Job
from paceline.clusters.local import Local
from paceline.clusters.zygote import Zygote
from paceline.comm.line import LineClosed
from paceline.comm.node_words import ThreadsTimed
from paceline.comm.roster import Seat
from paceline.spec import RunSpec
from paceline.store.runs import RunDir
from paceline.system.cores import usable_cores
from paceline.system.waiting import time_left

# Reading the data and a few steps take seconds; whoever takes longer is not waited for.
_PATIENCE_S: Final = 30.0
_TICK_S: Final = 0.1
# More threads must be worth it: on a busy machine they cost far more than they bring.
_LEAST_GAIN: Final = 1.1


@final
@dataclass(frozen=True, kw_only=True)
class Threads:
    """A number of threads per worker, and why it is that number."""

    number: int
    why: str
    is_measured: bool = False

    @property
    def sentence(self) -> str:
        noun = "thread" if self.number == 1 else "threads"
        return f"Each worker computes with {self.number} {noun}: {self.why}."


def must_be_measured(specs: Sequence[RunSpec]) -> bool:
    """Whether nothing says how many threads are best, and there is more than one choice."""
    spec = specs[0]
    is_told = spec.threads is not None or spec.workload.most_threads is not None
    # Of other machines' cores this one's say nothing.
    cannot = spec.is_replayed or spec.cluster.shares_process or spec.cluster.is_elsewhere
    return not (is_told or cannot or _fair(specs) == 1)


def decide(specs: Sequence[RunSpec], zygote: Zygote | None = None) -> Threads:
    """Give the number of threads that all workers of all these runs have.

    The runs train one workload. Those with the most workers leave each the fewest cores.
    """
    spec, fair = specs[0], _fair(specs)
    if spec.threads is not None:
        return Threads(number=spec.threads, why="as given")
    most = spec.workload.most_threads
    if most is not None and most < fair:
        name = spec.workload.name.rpartition("/")[2]
        return Threads(number=most, why=f"{name} gains from no more")
    if must_be_measured(specs):
        return _by_trial(spec, fair, zygote)
    workers = max(each.num_workers for each in specs)
    cores = f"{usable_cores() or 1:g} core{'s' if (usable_cores() or 1) > 1 else ''}"
    sharing = "1 worker has" if workers == 1 else f"{workers} workers share"
    return Threads(number=fair, why=f"{sharing} {cores}")


def _fair(specs: Sequence[RunSpec]) -> int:
    """How many cores there are for each worker of the largest run."""
    return max(1, int((usable_cores() or 1) // max(spec.num_workers for spec in specs)))


def _by_trial(spec: RunSpec, fair: int, zygote: Zygote | None) -> Threads:
    seconds = step_seconds(spec, fair, zygote)
    if seconds is None:  # the run itself will say what is wrong with the workload
        return Threads(number=fair, why="all available cores; a trial with fewer threads failed")
    one_s, all_s = seconds
    number = fair if one_s >= _LEAST_GAIN * all_s else 1
    why = f"measured, a step takes {_ms(one_s)} with 1 thread and {_ms(all_s)} with {fair}"
    return Threads(number=number, why=why, is_measured=True)


def step_seconds(
    spec: RunSpec, threads: int, zygote: Zygote | None = None
) -> tuple[float, float] | None:
    """Time a step with one thread and with several; None where that cannot be done in time."""
    with tempfile.TemporaryDirectory(prefix="paceline-threads-") as folder:
        place = RunDir(Path(folder))
        place.logs.mkdir()
        job = Job(
            run_dir=place.path,
            run_key=secrets.token_bytes(16),
            entry="paceline.engine.thread_trial:main",
            seats=[Seat("worker", 0, "node0")],
            threads=threads,
            text=dataclasses.replace(spec, threads=threads).toml(),
            imports=["paceline.engine.worker"],  # which the run will need from the same zygote
            zygote=zygote,
        )
        crew = Local().start(job)
        try:
            return _heard(crew)
        finally:
            crew.end()


def _heard(crew: Crew) -> tuple[float, float] | None:
    (line,) = crew.lines.values()
    try:
        for _ in time_left(_PATIENCE_S):
            word = line.receive(_TICK_S)
            if isinstance(word, ThreadsTimed):
                return word.one_s, word.all_s
    except LineClosed:  # it failed
        pass
    return None


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
