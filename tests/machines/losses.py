"""What can be lost while a run goes on on three hosts, and how it is taken away."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.commands import QUICK
from tests.machines.hosts import Hosts
from tests.machines.ray_cluster import AUTH
from tests.machines.runs import PACELINE, SAME, is_training, over_ssh
from tests.machines.torchruns import meeting_at
from tests.machines.torchruns import start as start_by_torchrun

PATIENCE_S: Final = 90.0
# A run is in every phase of its start within this time.
_START_S: Final = 8.0
_LONG: Final = ("--strategy", "ps-async", "--seconds", 300)


def moment(number: int) -> float:
    """Draw when a run loses something: in its start if odd, else in training."""
    draw = random.Random(number)
    return draw.uniform(0.5, _START_S) if number % 2 else _START_S + draw.uniform(0, 4)


Begin = Callable[[Hosts], "dict[str, subprocess.Popen[str]]"]
"""Starts a long run; gives what was started on which host. The first one's drives."""


def by_ssh(hosts: Hosts) -> dict[str, subprocess.Popen[str]]:
    return {"a": hosts.start("a", over_ssh(*_LONG))}


def by_ray(hosts: Hosts) -> dict[str, subprocess.Popen[str]]:
    """Start it where Ray is already."""
    where = ("--cluster", "ray", "--nodes", 3)
    run = [*AUTH, *PACELINE, "run", "logistic-mnist", *where, *_LONG, *QUICK, *SAME]
    return {"a": hosts.start("a", run)}


def by_torchrun(hosts: Hosts) -> dict[str, subprocess.Popen[str]]:
    """Start it with the store on a host that is not lost, and does not drive."""
    return start_by_torchrun(hosts, hosts.folder, meeting_at("c"), *_LONG)


def by_torchrun_with_the_store_on_b(hosts: Hosts) -> dict[str, subprocess.Popen[str]]:
    return start_by_torchrun(hosts, hosts.folder, meeting_at("b"), *_LONG)


def started(
    hosts: Hosts, moment_s: float, begin: Begin = by_ssh
) -> dict[str, subprocess.Popen[str]]:
    """Start a run, and wait until a moment of its start, or until it trains and then some more."""
    found = begin(hosts)
    if moment_s > _START_S:
        wait_until(lambda: is_training(hosts.folder))
        moment_s -= _START_S
    time.sleep(moment_s)
    return found


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came"
        time.sleep(0.02)


@dataclass(frozen=True)
class Loss:
    """Something that a run loses, from the moment on at which it is there to be lost."""

    strike: Callable[[Hosts, subprocess.Popen[str]], None]
    is_there: Callable[[Hosts], object] = lambda _: True
    within_s: float = 10.0
    """How soon the driver is to say so, or nothing to be left."""

    def __call__(self, hosts: Hosts, driver: subprocess.Popen[str]) -> float:
        """Take it away; gives when that was."""
        wait_until(lambda: driver.poll() is not None or self.is_there(hosts))
        assert driver.poll() is None, driver.communicate()
        struck_s = time.monotonic()
        self.strike(hosts, driver)
        return struck_s


def _drop_ssh(hosts: Hosts, _: subprocess.Popen[str]) -> None:
    for pid in _connections(hosts):
        hosts.kill_process("a", pid)


def _connections(hosts: Hosts) -> list[int]:
    """The ssh clients of host a that lead to b."""
    found = hosts.processes("a").items()
    return [pid for pid, text in found if text.startswith("ssh ") and " b exec " in text]


def _is_served(hosts: Hosts) -> bool:
    """Whether torchrun has started our own command on host b."""
    texts = hosts.processes("b").values()
    return any("-m paceline" in text and "torch.distributed.run" not in text for text in texts)


def _kill_raylet(hosts: Hosts, _: subprocess.Popen[str]) -> None:
    """Have Ray lose the node: the host itself is still there."""
    (found,) = hosts.run("b", ["pgrep", "-x", "raylet"]).stdout.split()
    hosts.kill_process("b", int(found))


def _agents(hosts: Hosts) -> list[int]:
    """The agent of host b, once it has called, and whom it has just forked."""
    return _called(hosts, "b", "pace-agent")


def _kill_agent(hosts: Hosts, _: subprocess.Popen[str]) -> None:
    hosts.kill_process("b", min(_agents(hosts)))


def interrupt_driver(hosts: Hosts, driver: subprocess.Popen[str]) -> None:
    hosts.send(driver, signal.SIGINT)


_HOST: Final = {
    "host killed": Loss(lambda hosts, _: hosts.kill("b")),
    "link cut": Loss(lambda hosts, _: hosts.cut("b")),
}
_AGENT: Final = {"agent killed": Loss(_kill_agent, _agents, within_s=5.0)}
NAMED: Final = _HOST | _AGENT | {"ssh dropped": Loss(_drop_ssh, _connections)}
"""Losses of host b, after which the driver says so."""
DRIVERS: Final = {
    "driver killed": Loss(lambda _, driver: driver.kill()),
    "driver's host killed": Loss(lambda hosts, _: hosts.kill("a")),
}
TORCHRUN_NAMED: Final = {
    name: Loss(each.strike, _is_served) for name, each in _HOST.items()
} | _AGENT
"""From when on our command is there: before, torchrun is by itself."""
RAY_NAMED: Final = _HOST | _AGENT | {"raylet killed": Loss(_kill_raylet)}


def keepers(hosts: Hosts, name: str) -> list[int]:
    """Give the processes of a host that are its keepers, outer ones too."""
    return _called(hosts, name, "pace-keeper")


def _called(hosts: Hosts, name: str, what: str) -> list[int]:
    """Give the processes of a host that have a name, as `ps` shows it."""
    root = Path(f"/proc/{hosts.pid(name)}/root/proc")
    found = []
    for pid in hosts.processes(name):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if root.joinpath(str(pid), "comm").read_text().strip() == what:
                found.append(pid)
    return found


_NAMES: Final = ("(b)", "not reached: b", "gone: b")
"""How an error names host b."""
_NO_LOSS: Final = ("starting: ", "waiting for", "could not be measured", "the clock of")
_OURS: Final = ("-m paceline", "ray::NodeActor", "pace-", "paceline-")


def is_named(line: str) -> bool:
    """Whether a line of the driver's says that host b is lost."""
    is_loss = not any(each in line for each in _NO_LOSS)
    return is_loss and any(each in line for each in _NAMES)


def ours(hosts: Hosts) -> list[str]:
    """Say what a run has left on any host. torchrun and Ray themselves end in their own time."""
    found = [each for name in hosts.names for each in hosts.left(name)]
    left = [each for each in found if "torch.distributed.run" not in each]
    return [each for each in left if any(mark in each for mark in _OURS)]
