"""Take something away from a run on three hosts, at random moments: how long until it is said?

    PYTHONPATH=. python benchmarks/losses.py --moments 10
    PYTHONPATH=. python benchmarks/losses.py torchrun --moments 2 --kept build/losses.jsonl

The hosts are namespaces, each with an sshd; needs root, and Ray for `ray`. What a run loses:

- through ssh, torchrun (with the store on a host that is not lost, and on the one that is) and Ray:
  a host killed whole, or its link cut; our agent there killed; ssh's connection dropped; Ray's
  daemon of a node killed.
  Seconds until the driver has said an error that names the host, from the moment on at which
  it was lost;
- the driver, alone or with its host: seconds until nothing of the run is left on the other hosts.

The promise is 10 s for each, 5 s for an agent. Prints one line per kind, and ends with code 1 if
one took longer, a host was not named, or something was left 30 s later. What torchrun and Ray start
themselves ends in their own time, and is not counted. A loss that cannot be measured is told,
counts as missed, and the next one is still measured. With `--kept` every loss is written into a
file, and one that is there already is not measured again. A loss takes 10 to 30 s.
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
from tests.machines.hosts import why_not as why_no_hosts
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
from tried import ended, tried

LEAVING_S = 30.0


@dataclass(frozen=True)
class Way:
    """A way to start a run, and what it may lose."""

    begin: Begin
    named: Mapping[str, Loss]
    drivers: Mapping[str, Loss]
    prepare: Callable[[Hosts], None] = Hosts.know_names

    @property
    def losses(self) -> Mapping[str, Loss]:
        return {**self.named, **self.drivers}


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
        tempfile.TemporaryDirectory(
            prefix="paceline-losses-", ignore_cleanup_errors=True
        ) as folder,
        Hosts(["a", "b", "c"], Path(folder)) as hosts,
    ):
        way.prepare(hosts)
        hosts.take_for_granted()
        processes = started(hosts, moment(number), way.begin)
        with ended(processes.values()):
            return _lost(way, kind, hosts, processes)


def _lost(way: Way, kind: str, hosts: Hosts, processes: Mapping[str, Popen[str]]) -> Sequence[Any]:
    driver = processes["a"]
    others = [each for each in processes.values() if each is not driver]
    readers = [Said(each) for each in others]  # or they would block
    struck_s = way.losses[kind](hosts, driver)
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
    if (missing := why_no_hosts()) is not None:
        print(f"no hosts can be made here: {missing}")
        return 1
    kept = Kept(arguments.kept)
    is_kept = True
    for name in arguments.ways or WAYS:
        if name == "ray" and (missing := why_no_ray()) is not None:
            print(f"without Ray: {missing}")
            continue
        for kind in WAYS[name].losses:
            is_kept &= _is_kept(name, kind, arguments.moments, kept)
    return 0 if is_kept else 1


def _is_kept(name: str, kind: str, moments: int, kept: Kept) -> bool:
    """Measure a kind of loss, and print a line of it; gives whether the promise was kept."""
    keys = [f"{name}, {kind}, {number}" for number in range(moments)]
    found = [
        tried(key, partial(kept, key, partial(lose, WAYS[name], kind, number)))
        for number, key in enumerate(keys)
    ]
    measured = [each for each in found if each is not None]
    promised_s = WAYS[name].losses[kind].within_s
    is_met = bool(measured) and _told(f"{name}, {kind}", measured, promised_s)
    if missing := len(found) - len(measured):
        print(f"  {missing} could not be measured, as was said above", flush=True)
    return is_met and not missing


def _told(title: str, found: Sequence[Sequence[Any]], promised_s: float) -> bool:
    seconds, wrong = [each for each, _ in found], [each for _, each in found if each]
    is_met = not wrong and max(seconds) <= promised_s
    spread = f"median {statistics.median(seconds):5.1f} s, at most {max(seconds):5.1f} s"
    verdict = "met" if is_met else "MISSED"
    print(f"{title:38s} {spread}, n={len(seconds)}; wanted {promised_s:g} s: {verdict}", flush=True)
    for each in wrong:
        print(f"  wrong: {each}", flush=True)
    return is_met


if __name__ == "__main__":
    sys.exit(main())
