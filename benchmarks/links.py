"""Does a link carry what was asked for, each way?

    python benchmarks/links.py [--repetitions 5] [--rates 100mbit,1gbit,2gbit] [--nodes 1]

Makes so many emulated nodes a rate, fills the first one's link one way and then the other for a
second, and counts what arrives, as iperf3 does; headers are counted too, as a link counts them. The
more nodes, the larger the lumps in which their packets travel. Prints what came over
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
from paceline.description import parse_rate

RATES = "100mbit,1gbit,2gbit"
SECONDS = 1.0
TOLERANCE = 0.05


def measured(rates: dict[str, float], num_nodes: int) -> dict[str, tuple[float, float]]:
    """Fill every link once; gives what came over what was asked for, out of the node and in."""
    reader, writer = os.pipe()

    def fill() -> None:
        gain_rights()
        ratios: dict[str, tuple[float, float]] = {}
        for name, rate in rates.items():
            # By itself: the slowest link of a network decides what all others hand on at once.
            network = Network([Link(str(node), rate) for node in range(num_nodes)])
            network.nodes = {"0": network.nodes["0"]}
            found = measure(network, SECONDS, tries=1)["0"]
            ratios[name] = found.sent_bits_per_s / rate, found.received_bits_per_s / rate
        os.write(writer, json.dumps(ratios).encode())

    refused = attempt(fill, timeout_s=300)
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
    parser.add_argument("--rates", default=RATES)
    parser.add_argument("--nodes", type=int, default=1)
    arguments = parser.parse_args()
    rates = {name: float(str(parse_rate(name))) for name in arguments.rates.split(",")}
    rounds = [measured(rates, arguments.nodes) for _ in range(arguments.repetitions)]
    num_bad = 0
    for name in rates:
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
