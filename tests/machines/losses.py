"""What can be lost while a run goes on on three hosts, and how it is taken away."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.machines.hosts import Hosts
from tests.machines.runs import is_training, over_ssh

PATIENCE_S: Final = 90.0
# A run is in every phase of its start within this time.
_START_S: Final = 8.0
_LONG: Final = ("--strategy", "ps-async", "--seconds", 300)


def moment(number: int) -> float:
    """Draw when a run loses something: in its start if odd, else in training."""
    draw = random.Random(number)
    return draw.uniform(0.5, _START_S) if number % 2 else _START_S + draw.uniform(0, 4)


def started(
    hosts: Hosts, moment_s: float, command: Callable[..., list[object]] = over_ssh
) -> subprocess.Popen[str]:
    """Start a run, and wait until a moment of its start, or until it trains and then some more."""
    driver = hosts.start("a", command(*_LONG))
    if moment_s > _START_S:
        wait_until(lambda: is_training(hosts.folder))
        moment_s -= _START_S
    time.sleep(moment_s)
    return driver


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came"
        time.sleep(0.02)


def kill_host(hosts: Hosts, _: subprocess.Popen[str]) -> None:
    hosts.kill("b")


def cut_link(hosts: Hosts, _: subprocess.Popen[str]) -> None:
    hosts.cut("b")


def drop_ssh(hosts: Hosts, _: subprocess.Popen[str]) -> None:
    wait_until(lambda: _connections(hosts))
    for pid in _connections(hosts):
        hosts.kill_process("a", pid)


def kill_driver(_: Hosts, driver: subprocess.Popen[str]) -> None:
    driver.kill()


def interrupt_driver(hosts: Hosts, driver: subprocess.Popen[str]) -> None:
    hosts.send(driver, signal.SIGINT)


def kill_drivers_host(hosts: Hosts, _: subprocess.Popen[str]) -> None:
    hosts.kill("a")


Loss = Callable[[Hosts, "subprocess.Popen[str]"], None]
NAMED: Final[dict[str, Loss]] = {
    "host killed": kill_host,
    "link cut": cut_link,
    "ssh dropped": drop_ssh,
}
"""Losses of host b, after which the driver says so."""
DRIVERS: Final[dict[str, Loss]] = {
    "driver killed": kill_driver,
    "driver's host killed": kill_drivers_host,
}


def keepers(hosts: Hosts, name: str) -> list[int]:
    """Give the processes of a host that are its keepers, outer ones too."""
    root = Path(f"/proc/{hosts.pid(name)}/root/proc")
    names = {pid: root.joinpath(str(pid), "comm") for pid in hosts.processes(name)}
    return [pid for pid, comm in names.items() if comm.read_text().strip() == "pace-keeper"]


def _connections(hosts: Hosts) -> list[int]:
    """The ssh clients of host a that lead to b."""
    found = hosts.processes("a").items()
    return [pid for pid, text in found if text.startswith("ssh ") and " b exec " in text]
