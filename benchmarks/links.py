"""Does a link carry what was asked for, each way?

    python benchmarks/links.py --repetitions 5

Makes one emulated node a rate, fills its link one way and then the other for a second, and counts
what arrives, as iperf3 does; headers are counted too, as a link counts them. Prints what came over
what was asked for, and ends with code 1 if a median is off by more than 5 %. Everything is made in
a child process that takes it all with it when it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys

from paceline.attempts import attempt
from paceline.clusters.emulated.achieved import measure
from paceline.clusters.emulated.network import Link, Network, gain_rights

RATES = {"100 Mbit": 1e8, "1 Gbit": 1e9, "2 Gbit": 2e9}
SECONDS = 1.0
TOLERANCE = 0.05


def measured() -> dict[str, tuple[float, float]]:
    """Fill every link once; gives what came over what was asked for, out of the node and in."""
    reader, writer = os.pipe()

    def fill() -> None:
        gain_rights()
        network = Network([Link(name, rate) for name, rate in RATES.items()])
        found = measure(network, SECONDS, tries=1)
        ratios = {
            name: (
                found[name].sent_bits_per_s / rate,
                found[name].received_bits_per_s / rate,
            )
            for name, rate in RATES.items()
        }
        os.write(writer, json.dumps(ratios).encode())

    refused = attempt(fill, timeout_s=120)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    if refused:
        raise SystemExit(f"no network can be made here: {refused}")
    ratios: dict[str, tuple[float, float]] = json.loads(text)
    return ratios


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    rounds = [measured() for _ in range(arguments.repetitions)]
    num_bad = 0
    for name in RATES:
        for index, way in enumerate(("out", "in")):
            each = [found[name][index] for found in rounds]
            median = statistics.median(each)
            is_good = abs(median - 1) <= TOLERANCE
            num_bad += not is_good
            print(
                f"{name:>8} {way:>3}: {median:.4f} of what was asked for "
                f"({min(each):.4f} to {max(each):.4f}, n={len(each)}); "
                f"wanted 0.95 to 1.05: {'met' if is_good else 'MISSED'}"
            )
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
