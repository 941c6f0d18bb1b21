"""A Ray cluster on the hosts of a test: a real one, with a token."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.machines.hosts import Hosts

TOKEN: Final = "0123456789abcdef" * 2
AUTH: Final = ("env", "RAY_AUTH_MODE=token", f"RAY_AUTH_TOKEN={TOKEN}")
PORT: Final = 6379
# Less than Ray's daemons want to have, so that three of them start on a small machine.
_SMALL: Final = ("--object-store-memory", 80_000_000, "--disable-usage-stats")
_STARTING_S: Final = 120.0


def why_not() -> str | None:
    """Say why there is no Ray here, if so."""
    found = importlib.util.find_spec("ray")
    return None if found else "Ray is not installed: pip install 'paceline[ray]'"


def ray(*arguments: object) -> list[object]:
    """Give the command that does something with Ray, with the token."""
    return [*AUTH, Path(sys.executable).with_name("ray"), *arguments]


def start_ray(
    hosts: Hosts, num_cpus: int = 2, odd: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Have Ray on all hosts; the first one is the head. `odd` are variables of some of them."""
    head, *others = hosts.names
    each = ("--num-cpus", num_cpus, *_SMALL)
    quiet = ("--include-dashboard=false", "--include-log-monitor=false")
    at = ("--port", PORT, "--node-ip-address", hosts.address(head))
    _succeed(hosts.start(head, ray("start", "--head", *at, *each, *quiet)))
    started = [
        hosts.start(
            name,
            [
                *("env", *(odd or {}).get(name, ())),
                *ray("start", "--address", f"{hosts.address(head)}:{PORT}"),
                *("--node-ip-address", hosts.address(name), *each, quiet[1]),
            ],
        )
        for name in others
    ]
    for one in started:
        _succeed(one)
    hosts.take_for_granted()


def _succeed(started: subprocess.Popen[str]) -> None:
    said = started.communicate(timeout=_STARTING_S)
    assert started.returncode == 0, said
