"""Commands that torchrun starts on each of several hosts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.commands import QUICK
from tests.machines.hosts import Hosts
from tests.machines.runs import SAME

SECRET = "0123456789abcdef" * 4
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nnodes", 3, "--nproc-per-node", 1)
PORT = 29500
_ENOUGH_S = 150


def meeting_at(host: str) -> Callable[[str], tuple[object, ...]]:
    """Have all meet at a host, and the first one drive."""
    return lambda _: ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{host}:{PORT}")


c10d: Final = meeting_at("b")
"""The endpoint is not the host that drives: that is the one whose name is first."""


def static(name: str) -> tuple[object, ...]:
    """The second host is to drive."""
    rank = {"a": 1, "b": 0, "c": 2}[name]
    return ("--node-rank", rank, "--master-addr", "b", "--master-port", PORT)


def start(
    hosts: Hosts,
    folder: Path,
    meeting: Callable[[str], tuple[object, ...]],
    *asked: object,
    secrets: Mapping[str, str] | None = None,
    workload: str = "logistic-mnist",
    command: str = "run",
    same: Sequence[object] = (*QUICK, *SAME),
) -> dict[str, subprocess.Popen[str]]:
    """Type the same on each host."""
    run = ("-m", "paceline", command, workload, "--cluster", "torchrun", *asked, *same)
    return start_program(hosts, folder, meeting, run, secrets=secrets)


def start_program(
    hosts: Hosts,
    folder: Path,
    meeting: Callable[[str], tuple[object, ...]],
    program: Sequence[object],
    *,
    secrets: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    variables: Sequence[str] = (),
) -> dict[str, subprocess.Popen[str]]:
    """Have torchrun start the same program on each host."""
    started = {}
    for name in hosts.names:
        secret = f"PACELINE_SECRET={(secrets or {}).get(name, SECRET)}"
        logs = ("--log-dir", folder / f"logs-{name}")  # torchrun leaves them in /tmp otherwise
        whole = ["env", secret, *variables, *TORCHRUN, *logs, *meeting(name), *program]
        started[name] = hosts.start(name, whole, cwd=cwd or folder)
    return started


def told(
    started: dict[str, subprocess.Popen[str]], within_s: float = _ENOUGH_S
) -> dict[str, tuple[int, str]]:
    """Wait for all of them; gives each one's exit code, and what it has said besides its result."""
    said = {name: each.communicate(timeout=within_s)[1] for name, each in started.items()}
    return {name: (each.returncode, said[name]) for name, each in started.items()}
