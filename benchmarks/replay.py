"""Whether replayed compute takes the time it should, and slowed time changes nothing else.

    python benchmarks/replay.py [--repetitions 3] [--only rates|calibrated|dilation]

Images per second of each network alone over what was published for a K80; rows per second of LeNet,
replayed as `paceline calibrate` has just measured it, over those of real compute, in turn; virtual
images per second of a ring of three emulated nodes at dilation 2 and 4 over those at 1, in turn.
Ends with code 1 if a median is further off than it may be, either way.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
from ratios import Ratio, alternate

import paceline
from paceline.compute.rates import device_rates
from paceline.planning.calibration import calibrate, file_table
from paceline.spec import RunSpec

DEVICE = "replay:k80"
QUIET = {"tensorboard": False, "model": False}
LENET = {"workload": {"name": "lenet-mnist", "subset": "tenth"}, "threads": 1}
RING = {
    "workload": "resnet50-cifar10",
    "strategy": "ring",
    "cluster": {"name": "emulated", "link": "1gbit"},
    "device": DEVICE,
    "num_workers": 3,
    "worker_steps": 12,
}
# How far off a ratio may be: of published rates, of calibrated ones and of dilated runs.
EXACT = (0.99, 1.01)
CLOSE = (0.95, 1.05)


def samples_per_s(**fields: Any) -> float:
    """The rate of a run's steps, its first tenth left out."""
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(RunSpec.from_table({"record": QUIET, **fields}), out=out)
    note = " (host-limited)" if result.host_limited else ""
    print(f"  {result.workload}, {result.label}: {result.samples_per_s:,.1f} rows/s{note}")
    assert result.samples_per_s is not None
    return result.steady_samples_per_s or result.samples_per_s


def told(ratio: Ratio, bounds: tuple[float, float]) -> bool:
    print(ratio.line(*bounds), flush=True)
    return ratio.is_met(*bounds)


def compare_rates(repetitions: int) -> Iterator[bool]:
    for workload in device_rates(DEVICE).workloads:
        published = device_rates(DEVICE).of(workload, DEVICE).rows_per_s
        assert published is not None
        ours = [
            samples_per_s(workload=workload, device=DEVICE, batch=32, steps=8)
            for _ in range(repetitions)
        ]
        ratio = Ratio(f"{workload} alone over what was published", ours, [published] * len(ours))
        yield told(ratio, EXACT)


def compare_calibrated(repetitions: int) -> Iterator[bool]:
    """Replay this machine on itself."""
    rates = calibrate(RunSpec.from_table(LENET), 200, lambda *_: None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "here.toml"
        path.write_text(tomli_w.dumps(file_table("here", "lenet-mnist", rates, "this machine")))
        replayed = partial(samples_per_s, **LENET, device=f"replay:{path}", worker_steps=300)
        real = partial(samples_per_s, **LENET, worker_steps=300, eval_samples=10)
        title = "lenet, replayed as calibrated over real"
        yield told(alternate(title, replayed, real, repetitions), CLOSE)
    if rates.note:
        print(f"warning: {rates.note}")


def compare_dilation(repetitions: int) -> Iterator[bool]:
    for dilation in (2, 4):
        title = f"resnet50, ring of 3 at 1 Gbit, dilation {dilation} over 1"
        slowed, plain = (partial(samples_per_s, **RING, dilation=each) for each in (dilation, 1))
        yield told(alternate(title, slowed, plain, repetitions), CLOSE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    parts = {
        "rates": compare_rates,
        "calibrated": compare_calibrated,
        "dilation": compare_dilation,
    }
    chosen = [compare for name, compare in parts.items() if arguments.only in name]
    met = [each for compare in chosen for each in compare(arguments.repetitions)]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
