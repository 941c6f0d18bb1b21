"""Take something away from a run on three hosts, at random moments: how long until it is said?

    PYTHONPATH=. python benchmarks/losses.py --moments 10
    PYTHONPATH=. python benchmarks/losses.py torchrun --moments 2 --kept build/losses.jsonl

The hosts are namespaces, each with an sshd; needs root, and Ray for `ray`. What a run loses:

- through ssh, torchrun (with the store on a host that is not lost, and on the one that is) and Ray:
  a host killed whole, or its link cut; ssh's connection dropped; Ray's daemon of a node killed.
  Seconds until the driver has said an error that names the host, from the moment on at which
  it was lost;
- the driver, alone or with its host: seconds until nothing of the run is left on the other hosts.

The promise is 10 s for each. Prints one line per kind, and ends with code 1 if one took longer, a
host was not named, or something was left 30 s later. What torchrun and Ray start themselves ends in
their own time, and is not counted. With `--kept` every loss is written into a file, and one that is
there already is not measured again. A loss takes 10 to 30 s.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

from kept import Kept
from tests.machines.hosts import Hosts
from tests.machines.losses import (
    DRIVERS,
    NAMED,
    PATIENCE_S,
    RAY_NAMED,
    TORCHRUN_NAMED,
    Begin,
    Loss,
    by_ray,
    by_ssh,
    by_torchrun,
    by_torchrun_with_the_store_on_b,
    is_named,
    moment,
    ours,
    started,
)
from tests.machines.ray_cluster import start_ray
from tests.machines.ray_cluster import why_not as why_no_ray

LEAVING_S = 30.0
PROMISED_S = 10.0


@dataclass(frozen=True)
class Way:
    """A way to start a run, and what it may lose."""

    begin: Begin
    named: Mapping[str, Loss]
    drivers: Mapping[str, Loss]
    prepare: Callable[[Hosts], None] = Hosts.know_names


WAYS = {
    "ssh": Way(by_ssh, NAMED, DRIVERS),
    "torchrun": Way(by_torchrun, TORCHRUN_NAMED, DRIVERS),
    "torchrun-store": Way(by_torchrun_with_the_store_on_b, TORCHRUN_NAMED, {}),
    "ray": Way(by_ray, RAY_NAMED, DRIVERS, start_ray),
}


class Said:
    """What a driver says, and when it first names the host that was lost."""

    def __init__(self, driver: Popen[str]) -> None:
        self.lines: list[str] = []
        self.named_s: float | None = None
        self._driver = driver
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._driver.stderr is not None
        for line in self._driver.stderr:
            self.lines.append(line)
            if self.named_s is None and is_named(line):
                self.named_s = time.monotonic()

    def await_end(self) -> None:
        self._driver.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)


def lose(way: Way, kind: str, number: int) -> Sequence[Any]:
    """Have one run lose something; gives the seconds, and what was wrong, if anything was."""
    with (
        tempfile.TemporaryDirectory(prefix="paceline-losses-") as folder,
        Hosts(["a", "b", "c"], Path(folder)) as hosts,
    ):
        way.prepare(hosts)
        hosts.take_for_granted()
        processes = started(hosts, moment(number), way.begin)
        driver = processes.pop("a")
        readers = [Said(each) for each in processes.values()]  # or they would block
        struck_s = {**way.named, **way.drivers}[kind](hosts, driver)
        said = Said(driver)
        said.await_end()
        left = _left(hosts, time.monotonic() + LEAVING_S)
        gone_s = time.monotonic()
        del readers
        if kind in way.drivers:
            return gone_s - struck_s, f"left {left}" if left else ""
        if said.named_s is None or left:
            return gone_s - struck_s, f"left {left}, told {''.join(said.lines)[-2000:]!r}"
        return said.named_s - struck_s, ""


def _left(hosts: Hosts, until_s: float) -> list[str]:
    """Wait until nothing of ours is left; gives what is when the time is up."""
    while left := ours(hosts):
        if time.monotonic() > until_s:
            break
        time.sleep(0.05)
    return left


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--kept", type=Path, help="losses already measured; more are added")
    arguments = parser.parse_args()
    if unknown := [each for each in arguments.ways if each not in WAYS]:
        parser.error(f"no such way: {', '.join(unknown)}")
    kept = Kept(arguments.kept)
    is_kept = True
    for name in arguments.ways or WAYS:
        if name == "ray" and (missing := why_no_ray()) is not None:
            print(f"without Ray: {missing}")
            continue
        for kind in (*WAYS[name].named, *WAYS[name].drivers):
            found = [
                kept(f"{name}, {kind}, {number}", partial(lose, WAYS[name], kind, number))
                for number in range(arguments.moments)
            ]
            is_kept &= _told(f"{name}, {kind}", found)
    return 0 if is_kept else 1


def _told(title: str, found: list[Sequence[Any]]) -> bool:
    """Print a line of a kind, and what was wrong; gives whether the promise was kept."""
    seconds, wrong = [each for each, _ in found], [each for _, each in found if each]
    is_met = not wrong and max(seconds) <= PROMISED_S
    spread = f"median {statistics.median(seconds):5.1f} s, at most {max(seconds):5.1f} s"
    verdict = "met" if is_met else "MISSED"
    print(f"{title:38s} {spread}, n={len(seconds)}; wanted {PROMISED_S:g} s: {verdict}", flush=True)
    for each in wrong:
        print(f"  wrong: {each}", flush=True)
    return is_met


if __name__ == "__main__":
    sys.exit(main())
