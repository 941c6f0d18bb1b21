"""How full are the links while gradients are exchanged?

    python benchmarks/fill_links.py --repetitions 3
    python benchmarks/fill_links.py --six

Emulated nodes, 100 MB of gradients, and a device that computes nothing: a replayed one whose layers
take a microsecond. A step is then its exchange. What the busiest node has to send in a step by the
closed form, over the time of the median step, is held against the payload that its link carries:
1448 of 1514 bytes. Printed with each run are the same by the mean step, and which share of its time
this machine's own host kept the processors to itself: that comes in bursts, which the mean has in
it and the median step has not. Three workers at 1 Gbit: `ring` beside torch's `ddp`, and `ps-sync`,
whose server's link is full both ways at once. With --six: six ring workers at 2 Gbit, in real time
and dilated.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
from made_rates import made_rates
from ratios import Ratio, alternate

from paceline.measure.environment import steal_seconds

NUM_BYTES = 100_000_000
PAYLOAD = 1448 / 1514
COMMAND = [sys.executable, "-m", "paceline", "run", "synthetic", "--cluster", "emulated", "--json"]


def fill(strategy: str, workers: int, link: str, *options: str, steps: int = 10) -> float:
    """Run once; gives how full the busiest node's link was, as a share of its payload."""
    with tempfile.TemporaryDirectory(prefix="paceline-fill-") as folder:
        device = made_rates(Path(folder), NUM_BYTES)
        words = ["--strategy", strategy, "--workers", str(workers), "--link", link, *options]
        words += ["--device", device, "--set", f"workload.bytes={NUM_BYTES}"]
        words += ["--worker-steps", str(steps), "--out", folder, "--set", "record.interval_s=1e-6"]
        stolen_s = steal_seconds() or 0.0
        done = subprocess.run([*COMMAND, *words], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        taken_s = (steal_seconds() or 0.0) - stolen_s
        result = json.loads(done.stdout.splitlines()[-1])
        median_s = median_step_s(Path(folder) / Path(result["run"]).name / "steps.parquet")
    by_median, by_mean = (_fill_of(result, each) for each in (median_s, result["train_s"] / steps))
    limited = ", host-limited" if result["host_limited"] else ""
    print(
        f"  {strategy}, {workers} x {link}: {by_median:.3f}; by the mean step {by_mean:.3f}, "
        f"{taken_s:.1f} s of processor taken by the machine's host{limited}",
        flush=True,
    )
    return by_median


def median_step_s(path: Path) -> float:
    """The median of all workers' steps; a row is a step, the first ends where the clock began."""
    rows = polars.read_parquet(path).sort("time_s")
    steps = rows.select(polars.col("time_s").diff().over("seat").drop_nulls())
    return float(steps["time_s"].median())  # type: ignore[arg-type]


def _fill_of(result: dict[str, Any], step_s: float) -> float:
    busiest = max(each["expected_sent_bytes"] for each in result["traffic"]["nodes"])
    a_step = busiest / result["workers"][0]["worker_steps"]
    payload_bytes_per_s = result["nodes"][0]["link_bits_per_s"] / 8 * PAYLOAD
    share: float = a_step / step_s / payload_bytes_per_s
    return share


def of_link(title: str, measure: Callable[[], float], repetitions: int, wanted: float) -> bool:
    shares = [measure() for _ in range(repetitions)]
    return _told(Ratio(title, shares, [1.0] * repetitions), wanted)


def _told(ratio: Ratio, wanted: float) -> bool:
    low, high = min(ratio.each), max(ratio.each)
    verdict = "met" if ratio.median >= wanted else "MISSED"
    print(
        f"{ratio.title}: {ratio.median:.3f} ({low:.3f} to {high:.3f}, n={len(ratio.each)}); "
        f"wanted {wanted:.2f}: {verdict}",
        flush=True,
    )
    return ratio.median >= wanted


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--six", action="store_true")
    arguments = parser.parse_args()
    count = arguments.repetitions
    if arguments.six:
        met = [
            of_link("six, 2 Gbit / link", lambda: fill("ring", 6, "2gbit"), count, 0.93),
            of_link(
                "six, 2 Gbit, dilated 2x / link",
                lambda: fill("ring", 6, "2gbit", "--dilation", "2"),
                count,
                0.97,
            ),
        ]
        return 0 if all(met) else 1
    both = alternate(
        "ring / ddp", lambda: fill("ring", 3, "1gbit"), lambda: fill("ddp", 3, "1gbit"), count
    )
    met = [
        _told(Ratio("ring / link", both.ours, [1.0] * count), 0.97),
        _told(both, 1.0),
        of_link("ps-sync server / link", lambda: fill("ps-sync", 3, "1gbit"), count, 0.95),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
