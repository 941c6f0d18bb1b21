"""What it brings parameter servers to overlap and to be spread, beside ring and the closed form.

    python benchmarks/overlap.py [--networks resnet50,vgg16,alexnet] [--links 2gbit,10gbit]
        [--workers 2,4,6] [--budget 2] [--seconds 12] [--repetitions 1] [--real]

Every network is replayed at a K80's rates on emulated nodes, servers beside workers, plain SGD.
Time is slowed as far as it takes for all links together to carry no more than `--budget` Gbit/s;
all sides of a case are slowed alike and run in turn. Printed are, in images per second of all
workers together: `ps-sync` with a server beside every worker over `ring` (wanted 0.95) and over
its closed form (within 10 %), and with one server over the same without overlap (wanted 1.15 where
computing and communication are within a factor of two of each other; else only stated).

With `--real` instead: LeNet and a synthetic model of 100 MB, real compute on three nodes at
1 Gbit/s, overlapped over not (never below 1.0 by more than the spread).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ratios import Ratio
from speed_ups import BATCH, DEVICE, QUIET, measured, step_of

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
LEAST_STEPS, MOST_STEPS = 5, 40
REAL = {
    "lenet": {"workload": {"name": "lenet-mnist"}, "batch": 32, "worker_steps": 60},
    "100 MB": {
        "workload": {"name": "synthetic", "bytes": 100_000_000, "layers": 10},
        "batch": 16,
        "worker_steps": 12,
    },
}


def rate_of(spec: RunSpec) -> tuple[float, bool]:
    """Run it; gives worker steps per second of all workers, and whether this host limited it."""
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(spec, out=out)
        got = measured(StoredRun.read(RunDir(Path(result.run))))
        return got.per_s, got.host_limited


def replayed(
    network: str, side: str, num_workers: int, link: str, *, dilation: float, seconds: float
) -> RunSpec:
    bits_per_s = float(str(parse_rate(link)))
    longest_s = step_of(network).compute_s + LinkRate(bits_per_s=bits_per_s).seconds(
        2 * num_workers * step_of(network).num_bytes
    )
    return RunSpec.from_table(
        {
            "workload": {"name": f"{network}-cifar10"},
            "strategy": SIDES[side],
            "cluster": {"name": "emulated", "link": link},
            "optimizer": {"name": "sgd", "lr": 0.0001},
            "record": QUIET,
            "device": DEVICE,
            "dilation": dilation,
            "num_workers": num_workers,
            "batch": BATCH,
            "worker_steps": max(
                LEAST_STEPS, min(MOST_STEPS, round(seconds / (dilation * longest_s)))
            ),
        }
    )


def compare(
    network: str, num_workers: int, link: str, arguments: argparse.Namespace
) -> list[tuple[Ratio, float, float]]:
    """All sides of a case in turn; gives ratios, each with the least and the most wanted."""
    rate = LinkRate(bits_per_s=float(str(parse_rate(link))))
    dilation = max(1.0, num_workers * rate.bits_per_s / (1e9 * arguments.budget))
    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(arguments.repetitions):
        for side in list(SIDES)[:: 1 if number % 2 == 0 else -1]:
            spec = replayed(
                network, side, num_workers, link, dilation=dilation, seconds=arguments.seconds
            )
            per_s, is_limited = rate_of(spec)
            rates[side].append(BATCH * per_s)
            if is_limited:
                print(f"  {side}: limited by this host", flush=True)
    step, spread, one = step_of(network), rates["spread"], rates["one"]
    title = f"{network}, {num_workers} workers, {link} (dilated {dilation:g}x)"
    predicted = (
        BATCH
        * num_workers
        / ps_sync_step_s(step, rate, num_workers, num_servers=num_workers, overlap=True)
    )
    travels_s = rate.seconds((num_workers - 1) * step.num_bytes)
    is_near = 0.5 <= travels_s / step.compute_s <= 2.0
    closed_form = [predicted] * len(spread)
    over_not = Ratio(f"{title}: one server, overlapped over not", one, rates[NOT])
    return [
        (Ratio(f"{title}: spread over ring", spread, rates["ring"]), 0.95, 9.0),
        (Ratio(f"{title}: spread over closed form", spread, closed_form), 0.9, 1.1),
        (over_not, 1.15 if is_near else 0.0, 9.0),
    ]


def really(name: str, repetitions: int) -> Ratio:
    """Real compute, overlapped over not, in turn."""
    common = {**REAL[name], "cluster": {"name": "emulated", "link": "1gbit"}, "record": QUIET}

    def run(*, overlap: bool) -> Callable[[], float]:
        strategy = {
            "name": "ps-sync",
            "overlap": overlap,
            "chunk_bytes": 1 << 16 if name == "lenet" else 1 << 20,
        }
        return lambda: rate_of(
            RunSpec.from_table({**common, "strategy": strategy, "num_workers": 3})
        )[0]

    ours, theirs = run(overlap=True), run(overlap=False)
    rates: tuple[list[float], list[float]] = ([], [])
    for number in range(repetitions):
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            rates[index].append((ours, theirs)[index]())
    return Ratio(f"{name}, real compute, 3 nodes at 1 Gbit: overlapped over not", *rates)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", default="resnet50,vgg16,alexnet")
    parser.add_argument("--links", default="2gbit,10gbit")
    parser.add_argument("--workers", default="2,4,6")
    parser.add_argument("--budget", type=float, default=2.0, help="Gbit/s of real traffic")
    parser.add_argument("--seconds", type=float, default=12.0, help="real seconds per run")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="real compute instead")
    arguments = parser.parse_args()
    all_met = True
    if arguments.real:
        for name in REAL:
            ratio = really(name, max(3, arguments.repetitions))
            least = 1.0 - (max(ratio.each) - min(ratio.each))
            print(ratio.line(least), flush=True)
            all_met &= ratio.is_met(least)
        return 0 if all_met else 1
    for network in arguments.networks.split(","):
        for link in arguments.links.split(","):
            for num_workers in map(int, arguments.workers.split(",")):
                for ratio, least, most in compare(network, num_workers, link, arguments):
                    print(ratio.line(least, most), flush=True)
                    all_met &= ratio.is_met(least, most)
    return 0 if all_met else 1


if __name__ == "__main__":
    sys.exit(main())
