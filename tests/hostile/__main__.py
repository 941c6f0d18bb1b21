"""Attacks runs as an ordinary user, and checks that they end as if nobody had.

    python -m tests.hostile [--seconds 300] [--least 100000] [--steps 40000]

Runs over TCP and over Unix sockets, plain and encrypted, in turns until the time is up. Each must
have the parameters of an undisturbed run, take no more than 100 MB more memory in all, and
write less than 1 MB of logs. Connections that were made must have been counted, but for
a tenth: some are still open at the end, or come after it.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

import paceline
from paceline.clusters.local import Local
from paceline.engine.progress import RunView
from paceline.strategies.parameter_server.describe import PsSync
from paceline.testing import Moons
from paceline.testing.strategies import assert_parameters_close
from tests.hostile.attacks import KINDS
from tests.sharing import run

MODES = [("zmq-tcp", False), ("zmq-tcp", True), ("zmq", False), ("zmq", True)]
MOST_MEMORY_BYTES = 100e6
MOST_LOG_BYTES = 1e6
LEAST_COUNTED = 0.9


def spec_of(transport: Any, *, encrypt: bool, steps: int) -> paceline.RunSpec:
    return paceline.RunSpec(
        workload=Moons(),
        strategy=PsSync(),
        cluster=Local(transport=transport, encrypt=encrypt),
        num_workers=2,
        worker_steps=steps,
        record=paceline.Record(tensorboard=False, monitor=False),
    )


def addresses_of_seats() -> Iterator[str]:
    """Where the seats of the run that goes on in this process listen."""
    for process in psutil.Process().children(recursive=True):
        for each in process.net_connections(kind="all"):
            if each.status == psutil.CONN_LISTEN:
                yield f"tcp://{each.laddr.ip}:{each.laddr.port}"
            elif isinstance(each.laddr, str) and each.laddr.startswith("@"):
                yield f"ipc://{each.laddr}"


@dataclass
class Siege:
    """The attackers of one run, and how much memory its processes take together."""

    mechanism: str
    is_wanted: bool
    attackers: list["subprocess.Popen[str]"] = field(default_factory=list)
    peak_bytes: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self, view: RunView) -> None:
        if view.phase == "training" and self.is_wanted and not self.attackers:
            addresses = sorted(set(addresses_of_seats()))
            assert len(addresses) == 3, addresses
            self.attackers = [self._start(kind, addresses) for kind in KINDS]

    def _start(self, kind: str, addresses: list[str]) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tests.hostile.attacks", kind, self.mechanism, *addresses]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def sample(self) -> None:
        while not self.over.wait(0.2):
            self.peak_bytes = max(self.peak_bytes, sum(map(_memory_bytes, _processes())))

    def end(self) -> int:
        """End the attackers; returns how many connections they made."""
        for each in self.attackers:
            each.terminate()
        return sum(int(each.communicate()[0] or 0) for each in self.attackers)


def _processes() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _memory_bytes(process: psutil.Process) -> int:
    """What a process of the run takes; nothing, if it is an attacker or gone."""
    try:
        is_ours = "attacks" not in " ".join(process.cmdline())
        return process.memory_info().rss if is_ours else 0
    except psutil.Error:
        return 0


def besieged(spec: paceline.RunSpec, out: Path, *, attacked: bool) -> tuple[Any, Siege, int]:
    siege = Siege("CURVE" if spec.cluster.encrypts else "PLAIN", attacked)
    sampler = threading.Thread(target=siege.sample)
    sampler.start()
    try:
        result = run(spec, out=out, watch=siege.watch)
    finally:
        siege.over.set()
        sampler.join()
        num_made = siege.end()
    return result, siege, num_made


def check(alone: Any, quiet: Siege, visited: Any, siege: Siege, num_made: int) -> int:
    """Compare a run that was attacked with one that was not; returns how many were refused."""
    assert visited.status == "finished", visited.reason
    assert_parameters_close(visited, alone, tolerance=0.0)
    grown = siege.peak_bytes - quiet.peak_bytes
    assert grown <= MOST_MEMORY_BYTES, f"{grown / 1e6:.0f} MB more"
    logs = sum(path.stat().st_size for path in (Path(visited.run) / "logs").iterdir())
    assert logs < MOST_LOG_BYTES, f"{logs} bytes of logs"
    seats = (*visited.workers, *visited.servers)
    refused = sum(each.rejected_peers for each in seats)
    assert sum(each.dropped_frames for each in seats) == 0
    assert refused >= LEAST_COUNTED * num_made - 1000, f"{refused} of {num_made} counted"
    print(  # noqa: T201 - a command
        f"{num_made:,} connections, {refused:,} refused, {grown / 1e6:+.0f} MB, {logs:,} bytes of "
        f"logs, {visited.steps_per_s:.0f} steps/s (undisturbed {alone.steps_per_s:.0f})",
        flush=True,
    )
    return refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--least", type=int, default=100_000, help="refused in one run")
    parser.add_argument("--steps", type=int, default=40_000)
    arguments = parser.parse_args()
    deadline_s = time.monotonic() + arguments.seconds
    most = num_runs = 0
    with tempfile.TemporaryDirectory() as folder:
        alone: dict[tuple[str, bool], Any] = {}
        while num_runs < len(MODES) or time.monotonic() < deadline_s:
            mode = MODES[num_runs % len(MODES)]
            spec = spec_of(mode[0], encrypt=mode[1], steps=arguments.steps)
            if mode not in alone:
                alone[mode] = besieged(spec, Path(folder), attacked=False)[:2]
            print(mode[0], "encrypted" if mode[1] else "plain", end=": ", flush=True)  # noqa: T201
            most = max(most, check(*alone[mode], *besieged(spec, Path(folder), attacked=True)))
            num_runs += 1
    assert most >= arguments.least, f"{most} refused in one run, {arguments.least} were wanted"
    print(f"{num_runs} runs attacked, all ended as if nobody had")  # noqa: T201


if __name__ == "__main__":
    main()
