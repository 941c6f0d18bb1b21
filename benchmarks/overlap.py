"""What it brings parameter servers to overlap and to be spread, beside ring and the closed form.

    python benchmarks/overlap.py [--networks resnet50,vgg16,alexnet] [--links 2gbit,10gbit]
        [--workers 2,4,6] [--budget 0.67] [--seconds 12] [--repetitions 1] [--real]
        [--kept build/overlap.jsonl]

Every network is replayed at a K80's rates on emulated nodes, servers beside workers, plain SGD.
Time is slowed as far as it takes for all links together to carry no more than `--budget` Gbit/s:
12 times with four workers at 2 Gbit/s, which two cores carry. All sides of a case are slowed alike
and run in turn. Where one of them says that this host limited it, all are run again at twice the
dilation, up to two times, which is printed; a case that is limited even then is not judged, and
counts as missed. All cases take hours: name some. With `--kept` every run is written into
that file as a line, and one that is there already is not made again: a benchmark that was
interrupted goes on where it was. Lines of other code mean nothing: name another file then.

Printed are, in images per second of all workers together: `ps-sync` with a server beside every
worker over `ring` (wanted 0.95) and over its closed form (within 10 %), and with one server over
the same without overlap (wanted 1.15 where computing and communication are within a factor of two
of each other; else only stated).

With `--real` instead: LeNet and a synthetic model of 100 MB, real compute on three nodes at
1 Gbit/s, overlapped over not, five times at least. Printed is the median with its 95 % interval.
Wanted: a median of at least 0.97, and an interval that does not lie below 1.0.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
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
BUDGET_GBIT = 2 / 3
LEAST_STEPS, MOST_STEPS = 5, 40
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

    def dilation(self, budget_gbit: float) -> float:
        """Slow time so far that this host can carry what all links carry together."""
        return max(1.0, self.num_workers * self.rate.bits_per_s / (1e9 * budget_gbit))

    def spec(self, side: str, *, dilation: float, seconds: float) -> RunSpec:
        step = step_of(self.network)
        longest_s = step.compute_s + self.rate.seconds(2 * self.num_workers * step.num_bytes)
        wanted = round(seconds / (dilation * longest_s))
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
                "worker_steps": max(LEAST_STEPS, min(MOST_STEPS, wanted)),
            }
        )


@dataclass(frozen=True)
class Found:
    """What all sides of a case made, slowed alike."""

    dilation: float
    images_per_s: dict[str, list[float]]
    limited: tuple[str, ...]
    """Sides that this host limited."""


def in_turn(case: Case, dilation: float, seconds: float, repetitions: int, run: Run) -> Found:
    """Run all sides in turn, as often as that."""
    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    limited: list[str] = []
    for number in range(repetitions):
        for side in list(SIDES)[:: 1 if number % 2 == 0 else -1]:
            per_s, is_limited = run(case.spec(side, dilation=dilation, seconds=seconds))
            rates[side].append(BATCH * per_s)
            limited += [side] if is_limited else []
    return Found(dilation, rates, tuple(dict.fromkeys(limited)))


def compare(
    case: Case, budget_gbit: float, seconds: float, repetitions: int, run: Run = rate_of
) -> Found:
    """Run all sides; again, twice as slow, where this host limited any of them."""
    dilation = case.dilation(budget_gbit)
    found = in_turn(case, dilation, seconds, repetitions, run)
    for _ in range(MOST_SLOWER):
        if not found.limited:
            break
        dilation *= 2
        print(
            f"{case}, dilated {found.dilation:g}x: limited by this host ({_listed(found)}); "
            f"all sides again, dilated {dilation:g}x",
            flush=True,
        )
        found = in_turn(case, dilation, seconds, repetitions, run)
    return found


def _listed(found: Found) -> str:
    return "; ".join(found.limited)


def ratios(case: Case, found: Found) -> list[tuple[Ratio, float, float]]:
    """Give ratios of a case, each with the least and the most wanted."""
    count, step = case.num_workers, step_of(case.network)
    rates, title = found.images_per_s, f"{case} (dilated {found.dilation:g}x)"
    step_s = ps_sync_step_s(step, case.rate, count, num_servers=count, overlap=True)
    predicted = [BATCH * count / step_s] * len(rates["spread"])
    travels_s = case.rate.seconds((count - 1) * step.num_bytes)
    is_near = 0.5 <= travels_s / step.compute_s <= 2.0
    over_not = Ratio(f"{title}: one server, overlapped over not", rates["one"], rates[NOT])
    return [
        (Ratio(f"{title}: spread over ring", rates["spread"], rates["ring"]), 0.95, 9.0),
        (Ratio(f"{title}: spread over closed form", rates["spread"], predicted), 0.9, 1.1),
        (over_not, 1.15 if is_near else 0.0, 9.0),
    ]


def tell(case: Case, found: Found) -> bool:
    """Print a case's ratios; gives whether all are what was wanted."""
    if found.limited:
        print(
            f"{case}, dilated {found.dilation:g}x: still limited by this host ({_listed(found)}): "
            "not judged; what follows is of this host too",
            flush=True,
        )
    all_met = not found.limited
    for ratio, least, most in ratios(case, found):
        line = ratio.line(least, most)
        print(line.rpartition("; wanted")[0] if found.limited else line, flush=True)
        all_met &= ratio.is_met(least, most)
    return all_met


def really(name: str, repetitions: int, rate: Run) -> Ratio:
    """Real compute, overlapped over not, in turn."""
    common = {**REAL[name], "cluster": {"name": "emulated", "link": "1gbit"}, "record": QUIET}

    def run(*, overlap: bool) -> Callable[[], float]:
        strategy = {
            "name": "ps-sync",
            "overlap": overlap,
            "chunk_bytes": 1 << 16 if name == "lenet" else 1 << 20,
        }
        return lambda: rate(RunSpec.from_table({**common, "strategy": strategy, "num_workers": 3}))[
            0
        ]

    title = f"{name}, real compute, 3 nodes at 1 Gbit: overlapped over not"
    return alternate(title, run(overlap=True), run(overlap=False), repetitions)


def is_no_slower(interval: Interval) -> bool:
    """Whether a median is near 1.0 or above, and not shown to be below: a wide spread hides it."""
    return interval.median >= LEAST_MEDIAN and interval.high >= 1.0


def tell_real(name: str, repetitions: int, rate: Run) -> bool:
    ratio = really(name, max(LEAST_REPETITIONS, repetitions), rate)
    interval = Interval.of(ratio.each)
    is_met = is_no_slower(interval)
    print(
        f"{ratio.title}: {interval.median:.3f} (95 % interval of the median: {interval.low:.3f} to "
        f"{interval.high:.3f}, n={interval.count}); wanted at least {LEAST_MEDIAN}, and 1.0 not "
        f"above the interval: {'met' if is_met else 'MISSED'}",
        flush=True,
    )
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--networks", default="resnet50,vgg16,alexnet")
    parser.add_argument("--links", default="2gbit,10gbit")
    parser.add_argument("--workers", default="2,4,6")
    parser.add_argument("--budget", type=float, default=BUDGET_GBIT, help="Gbit/s of real traffic")
    parser.add_argument("--seconds", type=float, default=12.0, help="real seconds per run")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="real compute instead")
    parser.add_argument("--kept", type=Path, help="runs already made, and where to write more")
    arguments = parser.parse_args()
    run = rate_of if arguments.kept is None else Kept(arguments.kept)
    if arguments.real:
        met = [tell_real(name, arguments.repetitions, run) for name in REAL]
        return 0 if all(met) else 1
    all_met = True
    for network in arguments.networks.split(","):
        for link in arguments.links.split(","):
            for num_workers in map(int, arguments.workers.split(",")):
                case = Case(network, num_workers, link)
                found = compare(
                    case, arguments.budget, arguments.seconds, arguments.repetitions, run
                )
                all_met &= tell(case, found)
    return 0 if all_met else 1


if __name__ == "__main__":
    sys.exit(main())
