"""What a run ran on, so that its numbers can be judged later: a run's `environment.json`.

Everything here is read from /proc, /sys and the installed packages' metadata; torch is not
imported. No part may stop a run: what cannot be told is None.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import psutil

from paceline.system.cores import quota_cores, usable_cores

T = TypeVar("T")

PACKAGES = (
    "paceline",
    "torch",
    "numpy",
    "pyzmq",
    "polars",
    "psutil",
    "pydantic",
    "safetensors",
    "ray",
)

GIT_TIMEOUT_S = 2.0
# One command tells commit and changes. No optional locks, or we would write to the index of
# somebody else's repository; no fsmonitor, or a repository's setting would start a program.
GIT_STATUS = (
    *("git", "--no-optional-locks", "-c", "core.fsmonitor=false"),
    *("status", "--porcelain=v2", "--branch", "--untracked-files=no"),
)


def capture() -> dict[str, Any]:
    """Describe this machine, process and source tree; every value is JSON-able, unknown is None."""
    return {
        "captured_at_utc": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "command": list(sys.orig_argv),
        "hostname": _or_none(socket.gethostname),
        "kernel": _or_none(platform.release),
        "virtualisation": _or_none(_virtualisation),
        "versions": {"python": platform.python_version()} | {p: _version(p) for p in PACKAGES},
        "cpu": {
            "model": _or_none(_cpu_model),
            "physical_cores": _or_none(lambda: psutil.cpu_count(logical=False)),
            "logical_cores": os.cpu_count(),
            "affinity": _or_none(lambda: sorted(os.sched_getaffinity(0))),
            "quota_cores": quota_cores(),
            "usable_cores": usable_cores(),
        },
        "memory": {
            "total_bytes": memory_bytes("total"),
            "available_bytes": memory_bytes("available"),
        },
        "load_average": _or_none(lambda: list(os.getloadavg())),
        "steal": {
            "jiffies": _or_none(lambda: _cpu_jiffies()[7]),
            "percent_since_boot": _or_none(_steal_percent),
        },
        "tcp_congestion_control": _or_none(
            lambda: _read("/proc/sys/net/ipv4/tcp_congestion_control")
        ),
        "git": {
            "directory": _or_none(lambda: _git_state(Path.cwd())),
            "paceline": _or_none(_checkout_state),
        },
    }


def steal_seconds() -> float | None:
    """CPU time the hypervisor gave to others since boot, summed over cores; take differences."""
    return _or_none(lambda: _cpu_jiffies()[7] / os.sysconf("SC_CLK_TCK"))


def cpu_seconds() -> tuple[float, float] | None:
    """Processor time used on this machine since boot, and all there was; take differences."""
    jiffies = _or_none(_cpu_jiffies)
    if jiffies is None:
        return None
    idle = jiffies[3] + jiffies[4]
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    return (sum(jiffies) - idle) / ticks_per_s, sum(jiffies) / ticks_per_s


def disk_seconds() -> dict[str, float]:
    """For how long each disk of this machine had something to do since boot; take differences."""
    return _or_none(lambda: dict(_disk_seconds())) or {}


def memory_bytes(field: str) -> int | None:
    """Give `total` or `available` memory."""
    return _or_none(lambda: int(getattr(psutil.virtual_memory(), field)))


def _or_none(part: Callable[[], T]) -> T | None:
    try:
        return part()
    except Exception:  # noqa: BLE001 - a machine we cannot read must not stop the run on it
        return None


def _read(path: str | Path) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace").strip()


def _version(package: str) -> str | None:
    return _or_none(lambda: metadata.version(package))


def _cpu_model() -> str | None:
    fields = ("model name", "Model", "cpu model")  # x86; some ARM boards; MIPS
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in fields:
            return value.strip()
    return platform.processor() or None


def _cpu_jiffies() -> list[int]:
    """user, nice, system, idle, iowait, irq, softirq, steal of all cores together, since boot."""
    return [int(field) for field in _read("/proc/stat").split(maxsplit=9)[1:9]]


def _disk_seconds() -> Iterator[tuple[str, float]]:
    """Whole disks only; the tenth count of a line is milliseconds with requests under way."""
    disks = {path.name for path in Path("/sys/block").iterdir()}
    for line in _read("/proc/diskstats").splitlines():
        _, _, name, *counts = line.split()
        if name in disks:
            yield name, int(counts[9]) / 1e3


def _steal_percent() -> float:
    jiffies = _cpu_jiffies()
    return round(100 * jiffies[7] / sum(jiffies), 3)


def _virtualisation() -> str | None:
    """What /sys calls the machine; failing that, whether the CPU says a hypervisor is there."""
    for path in ("/sys/hypervisor/type", "/sys/class/dmi/id/sys_vendor"):
        told = _or_none(partial(_read, path))
        if told:
            product = _or_none(lambda: _read("/sys/class/dmi/id/product_name"))
            return f"{told} {product}" if product else told
    return "hypervisor of unknown kind" if " hypervisor " in _read("/proc/cpuinfo") else None


def _checkout_state() -> dict[str, Any] | None:
    """State of the repository this file is developed in; an installed copy has none."""
    checkout = Path(__file__).resolve().parents[3]
    return _git_state(checkout) if (checkout / ".git").exists() else None


def _git_state(folder: Path) -> dict[str, Any] | None:
    """Commit (None before the first) and whether tracked files differ from it."""
    # Without GIT_*: inside a git hook they would make git answer for another folder.
    told = subprocess.run(
        GIT_STATUS,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=GIT_TIMEOUT_S,
        check=True,
        text=True,
    ).stdout.splitlines()
    commit = next(line.split()[2] for line in told if line.startswith("# branch.oid "))
    dirty = any(not line.startswith("#") for line in told)
    return {"commit": None if commit == "(initial)" else commit, "dirty": dirty}
