"""What it brings parameter servers to overlap and to be spread, beside ring and the closed form.

    python benchmarks/overlap.py [--networks resnet50,vgg16,alexnet] [--links 2gbit,10gbit]
        [--workers 2,4,6] [--budget 0.67] [--steps 5] [--repetitions 1] [--real]
        [--kept build/overlap.jsonl]

Every network is replayed at a K80's rates on emulated nodes, servers beside workers, plain SGD.
A case has two pairs of sides: `ring` and servers that are spread, which fill the link of every
node; and one server with and without overlap, which fill that server's link alone. Time is slowed
as far as it takes for the full links of a pair together to carry no more than `--budget` Gbit/s:
with four workers at 2 Gbit/s 12 times and 3 times. The sides of a pair are slowed alike and run in
turn. Where one of them says that this host limited it, both are run again
at twice the dilation, up to two times, which is printed; a pair that is limited even then is not
judged, and counts as missed. A run has `--steps` steps per worker; the first and the last are not
measured. All cases take hours: name some. With `--kept` every run is written into that file as a
line, and one that is there already is not made again: a benchmark that was interrupted goes on
where it was. Lines of other code mean nothing: name another file then.

Printed are, in images per second of all workers together: `ps-sync` with a server beside every
worker over `ring` (wanted 0.95) and over its closed form (within 10 %), and with one server over
the same without overlap, with how long the server's link takes for gradients, over computing:
wanted 1.15 where that is within a factor of two, else only stated. ResNet50 with four workers at
2 Gbit/s is just outside, at 2.06.

With `--real` instead: LeNet and a synthetic model of 100 MB, real compute on three nodes at
1 Gbit/s, overlapped over not, five times at least. Printed is the median with its 95 % interval,
and how many of the runs this host limited: nothing is slowed here. Wanted: a median of at least
0.97, and an interval that does not lie below 1.0.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from before_after import Interval
from ratios import Ratio, alternate
from speed_ups import BATCH, DEVICE, MOST_SLOWER, QUIET, measured, step_of

import paceline
from paceline.arithmetic.closed_form import ps_sync_step_s
from paceline.arithmetic.network import LinkRate
from paceline.description import parse_rate
from paceline.spec import RunSpec
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun

NOT = "one, not overlapped"
SIDES: dict[str, dict[str, object]] = {
    "ring": {"name": "ring"},
    "spread": {"name": "ps-sync", "servers": "auto"},
    "one": {"name": "ps-sync"},
    NOT: {"name": "ps-sync", "overlap": False},
}
RIVALS, OVERLAPS = ("ring", "spread"), ("one", NOT)
"""Sides that are compared with each other: they run in turn, and are slowed alike."""
BUDGET_GBIT = 2 / 3
STEPS = 5
LEAST_REPETITIONS = 5
LEAST_MEDIAN = 0.97
"""Of real compute: what a median that is not shown to be below 1.0 has to be nevertheless."""
REAL = {
    "lenet": {"workload": {"name": "lenet-mnist"}, "batch": 32, "worker_steps": 60},
    "100 MB": {
        "workload": {"name": "synthetic", "bytes": 100_000_000, "layers": 10},
        "batch": 16,
        "worker_steps": 12,
    },
}
Run = Callable[[RunSpec], tuple[float, bool]]
"""Gives worker steps per second of all workers, and whether this host limited the run."""


def rate_of(spec: RunSpec) -> tuple[float, bool]:
    """Run it; gives worker steps per second of all workers, and whether this host limited it."""
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(spec, out=out)
        got = measured(StoredRun.read(RunDir(Path(result.run))))
        return got.per_s, got.host_limited


@final
class Kept:
    """Runs that are written into a file as they end, and looked up there the next time."""

    def __init__(self, path: Path, run: Run = rate_of) -> None:
        self._path, self._run = path, run
        lines = path.read_text().splitlines() if path.exists() else []
        self._known = [json.loads(line) for line in lines]

    def __call__(self, spec: RunSpec) -> tuple[float, bool]:
        """Give a run that is there and was not given before, or make it."""
        described = spec.toml()
        for known in self._known:
            if known["spec"] == described:
                self._known.remove(known)
                return known["per_s"], known["is_limited"]
        per_s, is_limited = self._run(spec)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as lines:
            told = {"spec": described, "per_s": per_s, "is_limited": is_limited}
            lines.write(json.dumps(told) + "\n")
        return per_s, is_limited


@dataclass(frozen=True)
class Case:
    """A network on so many nodes with such a link."""

    network: str
    num_workers: int
    link: str

    def __str__(self) -> str:
        return f"{self.network}, {self.num_workers} workers, {self.link}"

    @property
    def rate(self) -> LinkRate:
        return LinkRate(bits_per_s=float(str(parse_rate(self.link))))

    def dilation(self, pair: Sequence[str], budget_gbit: float) -> float:
        """Slow time so far that this host can carry what all full links carry together."""
        num_full = 1 if pair == OVERLAPS else self.num_workers
        return max(1.0, num_full * self.rate.bits_per_s / (1e9 * budget_gbit))

    @property
    def travels(self) -> float:
        """How long gradients of a step take into the link of one server, over computing."""
        step = step_of(self.network)
        return self.rate.seconds((self.num_workers - 1) * step.num_bytes) / step.compute_s

    def spec(self, side: str, *, dilation: float, steps: int) -> RunSpec:
        return RunSpec.from_table(
            {
                "workload": {"name": f"{self.network}-cifar10"},
                "strategy": SIDES[side],
                "cluster": {"name": "emulated", "link": self.link},
                "optimizer": {"name": "sgd", "lr": 0.0001},
                "record": QUIET,
                "device": DEVICE,
                "dilation": dilation,
                "num_workers": self.num_workers,
                "batch": BATCH,
                "worker_steps": steps,
            }
        )


@dataclass(frozen=True)
class Found:
    """What both sides of a pair made, slowed alike."""

    dilation: float
    images_per_s: dict[str, list[float]]
    limited: tuple[str, ...]
    """Sides that this host limited."""


@dataclass(frozen=True)
class Asked:
    """How a pair is to be run."""

    budget_gbit: float = BUDGET_GBIT
    steps: int = STEPS
    repetitions: int = 1
    run: Run = rate_of


def in_turn(case: Case, pair: Sequence[str], dilation: float, asked: Asked) -> Found:
    """Run both sides in turn, as often as asked."""
    rates: dict[str, list[float]] = {side: [] for side in pair}
    limited: list[str] = []
    for number in range(asked.repetitions):
        for side in pair[:: 1 if number % 2 == 0 else -1]:
            per_s, is_limited = asked.run(case.spec(side, dilation=dilation, steps=asked.steps))
            rates[side].append(BATCH * per_s)
            limited += [side] if is_limited else []
    return Found(dilation, rates, tuple(dict.fromkeys(limited)))


def compare(case: Case, pair: Sequence[str], asked: Asked) -> Found:
    """Run both sides; again, twice as slow, where this host limited one of them."""
    dilation = case.dilation(pair, asked.budget_gbit)
    found = in_turn(case, pair, dilation, asked)
    for _ in range(MOST_SLOWER):
        if not found.limited:
            break
        dilation *= 2
        print(
            f"{case}, dilated {found.dilation:g}x: limited by this host ({_listed(found)}); "
            f"{' and '.join(pair)} again, dilated {dilation:g}x",
            flush=True,
        )
        found = in_turn(case, pair, dilation, asked)
    return found


def _listed(found: Found) -> str:
    return "; ".join(found.limited)


@dataclass(frozen=True)
class Wanted:
    """A ratio and what it has to be."""

    ratio: Ratio
    least: float | None
    """None: it is only stated."""
    most: float = math.inf

    @property
    def is_met(self) -> bool:
        return self.least is None or self.ratio.is_met(self.least, self.most)

    def line(self, *, is_judged: bool) -> str:
        line = self.ratio.line(self.least or 0.0, self.most)
        if is_judged and self.least is not None:
            return line
        stated = line.rpartition("; wanted")[0]
        return f"{stated}; stated only" if is_judged else stated


def ratios(case: Case, found: Found) -> list[Wanted]:
    """Give a pair's ratios, each with the least and the most wanted."""
    rates, title = found.images_per_s, f"{case} (dilated {found.dilation:g}x)"
    if NOT in rates:
        times = f"gradients on the link take {case.travels:.2f} of computing"
        over_not = Ratio(
            f"{title}: one server, overlapped over not, {times}", rates["one"], rates[NOT]
        )
        return [Wanted(over_not, 1.15 if 0.5 <= case.travels <= 2.0 else None)]
    count, step = case.num_workers, step_of(case.network)
    step_s = ps_sync_step_s(step, case.rate, count, num_servers=count, overlap=True)
    predicted = [BATCH * count / step_s] * len(rates["spread"])
    return [
        Wanted(Ratio(f"{title}: spread over ring", rates["spread"], rates["ring"]), 0.95),
        Wanted(Ratio(f"{title}: spread over closed form", rates["spread"], predicted), 0.9, 1.1),
    ]


def tell(case: Case, found: Found) -> bool:
    """Print a pair's ratios; gives whether all are what was wanted."""
    if found.limited:
        print(
            f"{case}, dilated {found.dilation:g}x: still limited by this host ({_listed(found)}): "
            "not judged; what follows is of this host too",
            flush=True,
        )
    wanted = ratios(case, found)
    for each in wanted:
        print(each.line(is_judged=not found.limited), flush=True)
    return not found.limited and all(each.is_met for each in wanted)


def really(name: str, repetitions: int, rate: Run) -> tuple[Ratio, int]:
    """Real compute, overlapped over not, in turn; and how many of the runs this host limited."""
    common = {**REAL[name], "cluster": {"name": "emulated", "link": "1gbit"}, "record": QUIET}
    limited: list[bool] = []

    def run(*, overlap: bool) -> float:
        strategy = {
            "name": "ps-sync",
            "overlap": overlap,
            "chunk_bytes": 1 << 16 if name == "lenet" else 1 << 20,
        }
        table = {**common, "strategy": strategy, "num_workers": 3}
        per_s, is_limited = rate(RunSpec.from_table(table))
        limited.append(is_limited)
        return per_s

    title = f"{name}, real compute, 3 nodes at 1 Gbit: overlapped over not"
    sides = partial(run, overlap=True), partial(run, overlap=False)
    return alternate(title, *sides, repetitions), sum(limited)


def is_no_slower(interval: Interval) -> bool:
    """Whether a median is near 1.0 or above, and not shown to be below: a wide spread hides it."""
    return interval.median >= LEAST_MEDIAN and interval.high >= 1.0


def tell_real(name: str, repetitions: int, rate: Run) -> bool:
    ratio, num_limited = really(name, max(LEAST_REPETITIONS, repetitions), rate)
    interval = Interval.of(ratio.each)
    is_met = is_no_slower(interval)
    print(
        f"{ratio.title}: {interval.median:.3f} (95 % interval of the median: {interval.low:.3f} to "
        f"{interval.high:.3f}, n={interval.count}); this host limited {num_limited} of "
        f"{2 * interval.count} runs; wanted at least {LEAST_MEDIAN}, and 1.0 not above the "
        f"interval: {'met' if is_met else 'MISSED'}",
        flush=True,
    )
    return is_met


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    for network in arguments.networks.split(","):
        for link in arguments.links.split(","):
            for num_workers in map(int, arguments.workers.split(",")):
                yield Case(network, num_workers, link)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--networks", default="resnet50,vgg16,alexnet")
    parser.add_argument("--links", default="2gbit,10gbit")
    parser.add_argument("--workers", default="2,4,6")
    parser.add_argument("--budget", type=float, default=BUDGET_GBIT, help="Gbit/s of real traffic")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each worker, per run")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="real compute instead")
    parser.add_argument("--kept", type=Path, help="runs already made, and where to write more")
    arguments = parser.parse_args()
    run = rate_of if arguments.kept is None else Kept(arguments.kept)
    if arguments.real:
        met = [tell_real(name, arguments.repetitions, run) for name in REAL]
        return 0 if all(met) else 1
    asked = Asked(arguments.budget, arguments.steps, arguments.repetitions, run)
    all_met = True
    for case in cases(arguments):
        for pair in (RIVALS, OVERLAPS):
            all_met &= tell(case, compare(case, pair, asked))
    return 0 if all_met else 1


if __name__ == "__main__":
    sys.exit(main())
