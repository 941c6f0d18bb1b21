"""Does a link carry what was asked for, each way?

    python benchmarks/links.py [--repetitions 5] [--rates 100mbit,1gbit,2gbit] [--nodes 1]

Makes so many emulated nodes a rate, fills the first one's link one way and then the other for a
second, and counts what arrives, as iperf3 does; headers are counted too, as a link counts them. The
more nodes, the larger the lumps in which their packets travel. Prints what came over
what was asked for, and ends with code 1 if a median is off by more than 5 %. No link can carry
anything while the machine's own host does not let it run, and it makes up for no more than its
burst afterwards; so the same is printed once more for the tries in which the host took less than
1 % of the processors. Everything is made in a child process that takes it all with it when it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time

from paceline.clusters.emulated.achieved import measure
from paceline.clusters.emulated.network import Link, NodeNetwork, gain_rights
from paceline.description import parse_rate
from paceline.measure.environment import steal_seconds
from paceline.system.attempts import attempt

RATES = "100mbit,1gbit,2gbit"
SECONDS = 1.0
TOLERANCE = 0.05
LET_RUN = 0.01
Try = tuple[float, float, float]
"""What came over what was asked for, out and in, and what the machine's host took meanwhile."""


def measured(rates: dict[str, float], num_nodes: int) -> dict[str, Try]:
    """Fill every link once."""
    reader, writer = os.pipe()

    def fill() -> None:
        gain_rights()
        ratios: dict[str, Try] = {}
        for name, rate in rates.items():
            # By itself: the slowest link of a network decides what all others hand on at once.
            network = NodeNetwork([Link(str(node), rate) for node in range(num_nodes)])
            network.nodes = {"0": network.nodes["0"]}
            began_s, stolen_s = time.monotonic(), steal_seconds() or 0.0
            found = measure(network, SECONDS, tries=1)["0"]
            taken_s = (steal_seconds() or 0.0) - stolen_s
            taken = taken_s / (time.monotonic() - began_s) / (os.cpu_count() or 1)
            ratios[name] = found.sent_bits_per_s / rate, found.received_bits_per_s / rate, taken
        os.write(writer, json.dumps(ratios).encode())

    refused = attempt(fill, timeout_s=300)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    if refused:
        raise SystemExit(f"no network can be made here: {refused}")
    return {name: tuple(each) for name, each in json.loads(text).items()}


def tell(title: str, tries: list[tuple[float, float]]) -> bool:
    """Print what came in some tries, each with what the host took; gives whether it is close."""
    each = [share for share, _ in tries]
    median = statistics.median(each)
    is_good = abs(median - 1) <= TOLERANCE
    quiet = [share for share, taken in tries if taken < LET_RUN]
    alone = f"; {statistics.median(quiet):.4f} in {len(quiet)} that were let run" if quiet else ""
    print(
        f"{title}: {median:.4f} of what was asked for "
        f"({min(each):.4f} to {max(each):.4f}, n={len(each)}); "
        f"wanted 0.95 to 1.05: {'met' if is_good else 'MISSED'}{alone}",
        flush=True,
    )
    return is_good


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
    met = [
        tell(f"{name:>8} {way:>3}", [(found[name][index], found[name][2]) for found in rounds])
        for name in rates
        for index, way in enumerate(("out", "in"))
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
