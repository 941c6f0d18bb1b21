"""All-reduce of float32 among processes of this host: ours, Gloo's and OpenMPI's.

    python benchmarks/all_reduce.py [--peers .venv-peers/bin/python] [--ranks 2,3]

A figure is the median of many calls in a row as rank 0 sees them, after a warm-up and a barrier.
Contenders take turns, started anew for each figure, and a ratio is of one repetition. Gloo is
torch's own, over loopback, and so is our ring of messages; OpenMPI is in the peers' environment.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from bounded import DidNotRun, last_line
from contenders import PEERS_ENVIRONMENT
from trials import Trials, spread, table, take_turns

from paceline.comm.allreduce.base import AllReduce
from paceline.testing.ranks import AllReduceKind, reduce_together

Way = Literal["shared", "shared-in-place", "zmq"]
OURS: tuple[Way, ...] = get_args(Way)
GLOO, OPENMPI = "gloo", "openmpi"
NAMES = (*OURS, GLOO, OPENMPI)

RANKS = (2, 3)
ITERATIONS = {31_400: 2_000, 1_000_000: 300, 10_000_000: 40, 100_000_000: 10}
DEADLINE_S = 120.0


@dataclass(frozen=True)
class Goal:
    """How many times faster than a peer one of ours is to be."""

    ours: Way
    peer: str
    num_bytes: int
    wanted: float
    num_ranks: tuple[int, ...] = RANKS


GOALS = (
    Goal("shared", GLOO, 31_400, 20),
    Goal("shared", OPENMPI, 31_400, 1, (3,)),
    Goal("shared", OPENMPI, 31_400, 1 / 1.5, (2,)),
    *(Goal("shared", peer, size, 1) for size in (1_000_000, 10_000_000) for peer in NAMES[-2:]),
    *(Goal("shared", peer, 100_000_000, 1.5) for peer in NAMES[-2:]),
    *(Goal("shared-in-place", peer, 100_000_000, 3.5) for peer in NAMES[-2:]),
    Goal("zmq", GLOO, 31_400, 3, (3,)),
    *(Goal("zmq", GLOO, size, 1, (3,)) for size in (1_000_000, 10_000_000, 100_000_000)),
)


@dataclass(frozen=True)
class Cell:
    """One size among so many ranks."""

    num_ranks: int
    num_bytes: int

    def __str__(self) -> str:
        return f"{self.num_bytes / 1e6:g} MB, n={self.num_ranks}"

    @property
    def options(self) -> list[str]:
        iterations = str(ITERATIONS[self.num_bytes])
        size = ["--ranks", str(self.num_ranks), "--bytes", str(self.num_bytes)]
        return [*size, "--iterations", iterations]


def time_ours(kind: Way, num_ranks: int, num_bytes: int, iterations: int) -> float:
    """Seconds a call of our own: the median over `iterations`, as rank 0 sees them."""
    in_place = kind == "shared-in-place"
    body = partial(_time_calls, num_bytes // 4, iterations, in_place)
    how: AllReduceKind = "ring" if kind == "zmq" else "shared"
    room_bytes = num_bytes if in_place else 0
    return float(reduce_together(how, num_ranks, body, room_bytes=room_bytes, tcp=True)[0])


def _time_calls(num_values: int, iterations: int, in_place: bool, all_reduce: AllReduce) -> float:
    import torch

    values = torch.zeros(num_values)
    if in_place:
        values = all_reduce.allocate(num_values, torch.float32)
    seconds: list[float] = []
    for number in range(iterations + iterations // 10 + 1):
        if number == iterations // 10:
            all_reduce.gather(0)  # a barrier
            seconds.clear()
        began_s = time.perf_counter()
        all_reduce.reduce(values)
        seconds.append(time.perf_counter() - began_s)
    return statistics.median(seconds)


def time_gloo(cell: Cell) -> float:
    command = [sys.executable, "-m", "peers.gloo_all_reduce", *cell.options]
    return float(last_line(command, DEADLINE_S, PEERS_ENVIRONMENT)["seconds"])


def time_openmpi(cell: Cell, peers: Path | None) -> float:
    if peers is None:
        raise DidNotRun("no --peers given; make bench-peers makes their environment")
    # Root is refused unless one insists; more ranks than cores are, too.
    launch = [str(peers.parent / "mpiexec"), "--allow-run-as-root", "--oversubscribe"]
    launch += ["-n", str(cell.num_ranks), str(peers), "-m", "peers.openmpi_all_reduce"]
    return float(last_line([*launch, *cell.options], DEADLINE_S, PEERS_ENVIRONMENT)["seconds"])


def seconds_of(name: str, cell: Cell, peers: Path | None) -> float:
    """Seconds a call; raises `DidNotRun`."""
    if name == GLOO:
        return time_gloo(cell)
    if name == OPENMPI:
        return time_openmpi(cell, peers)
    (kind,) = (each for each in OURS if each == name)
    return time_ours(kind, cell.num_ranks, cell.num_bytes, ITERATIONS[cell.num_bytes])


def compare(peers: Path | None, repetitions: int, num_ranks: Sequence[int] = RANKS) -> None:
    """Measure every size among so many ranks, and print times and ratios."""
    done: dict[Cell, Trials] = {}
    for ranks in num_ranks:
        for num_bytes in ITERATIONS:
            cell = Cell(ranks, num_bytes)
            say = partial(_say, f"all-reduce, {cell}")
            measure = partial(seconds_of, cell=cell, peers=peers)
            done[cell] = take_turns(NAMES, measure, repetitions, say, _milliseconds)
    print(times_table(done), end="\n\n")
    print(table(("ours", "over", "times faster", "wanted", ""), ratio_rows(done)), flush=True)


def _say(title: str, text: str) -> None:
    print(f"{title}: {text}", file=sys.stderr, flush=True)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms"


def times_table(done: dict[Cell, Trials]) -> str:
    """Milliseconds a call; below it, why some have none."""
    rows = [
        (str(cell), *(_times(trials.measured(name)) for name in NAMES))
        for cell, trials in done.items()
    ]
    reasons = {name: why for trials in done.values() for name, why in trials.reasons.items()}
    notes = "".join(f"\n{name} did not run: {why}" for name, why in reasons.items())
    return table(("ms a call", *NAMES), rows) + notes


def _times(seconds: Sequence[float]) -> str:
    return spread([1e3 * each for each in seconds], 3) if seconds else "-"


def ratio_rows(done: dict[Cell, Trials]) -> Iterator[tuple[str, str, str, str, str]]:
    for goal in GOALS:
        for ranks in goal.num_ranks:
            trials = done.get(Cell(ranks, goal.num_bytes))
            # Of times, the peer's over ours is how many times faster we are.
            ratio = trials and trials.ratio(goal.peer, goal.ours)
            if not ratio:
                continue
            verdict = "met" if ratio.median >= goal.wanted else "MISSED"
            cell = Cell(ranks, goal.num_bytes)
            faster = spread(ratio.each, 2)
            yield f"{goal.ours}, {cell}", goal.peer, faster, f"{goal.wanted:.2g}", verdict


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peers", type=Path, help="the peers' python")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--ranks",
        type=lambda text: [int(each) for each in text.split(",")],
        default=list(RANKS),
        metavar="N,...",
    )
    arguments = parser.parse_args()
    peers = arguments.peers and arguments.peers.absolute()
    compare(peers, arguments.repetitions, arguments.ranks)


if __name__ == "__main__":
    main()
