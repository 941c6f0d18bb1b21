"""Take something away from a run on three hosts, at random moments: how long until it is said?

    PYTHONPATH=. python benchmarks/losses.py --moments 10

The hosts are namespaces, each with an sshd; needs root. A host killed whole, its link cut, ssh's
connection dropped: seconds until the driver has ended with an error that names the host. The driver
killed, alone or with its host: seconds until nothing of the run is left on the other hosts. The
promise is 10 s for each. Prints one line per kind, and ends with code 1 if a host was not named or
something was left.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.machines.hosts import Hosts
from tests.machines.losses import DRIVERS, NAMED, PATIENCE_S, moment, started

LEAVING_S = 30.0


def lose(kind: str, number: int) -> tuple[float, str]:
    """Have one run lose something; gives the seconds, and what was wrong, if anything was."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="paceline-losses-"))
        hosts = stack.enter_context(Hosts(["a", "b", "c"], Path(folder)))
        driver = started(hosts, moment(number))
        began_s = time.monotonic()
        {**NAMED, **DRIVERS}[kind](hosts, driver)
        _, told = driver.communicate(timeout=PATIENCE_S)
        took_s = time.monotonic() - began_s
        left = _left(hosts, began_s + took_s + LEAVING_S)
        if kind not in NAMED:
            return time.monotonic() - began_s, f"left {left}" if left else ""
        is_named = any("(b)" in each for each in told.splitlines() if "waiting" not in each)
        return took_s, "" if is_named and not left else f"left {left}, told {told!r}"


def _left(hosts: Hosts, until_s: float) -> list[str]:
    """Wait until nothing is left; gives what is when the time is up."""
    while left := [each for name in hosts.names for each in hosts.left(name)]:
        if time.monotonic() > until_s:
            break
        time.sleep(0.05)
    return left


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--moments", type=int, default=10)
    arguments = parser.parse_args()
    num_bad = 0
    for kind in (*NAMED, *DRIVERS):
        found = [lose(kind, number) for number in range(arguments.moments)]
        seconds, wrong = [each for each, _ in found], [each for _, each in found if each]
        num_bad += len(wrong)
        middle, most = statistics.median(seconds), max(seconds)
        print(f"{kind:22s} median {middle:5.1f} s, at most {most:5.1f} s of {len(seconds)}")
        for each in wrong:
            print(f"  wrong: {each}")
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
