"""Groups of processes that may use so much of the processors, version 1 and version 2."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def cpu_cgroups() -> Iterator[Path]:
    """Walk from our own cgroup up to the top of its mount: a quota anywhere on the way binds us."""
    kind, inner = _own_cpu_cgroup()
    root, mount = _cgroup_mount(kind)
    relative = os.path.relpath(inner, root)
    # Outside the mounted part (a container without a cgroup namespace): its top is all we see.
    folder = mount if relative.startswith("..") else mount / relative
    while folder != mount.parent:
        if folder.is_dir():
            yield folder
        folder = folder.parent


def _own_cpu_cgroup() -> tuple[str, str]:
    """(controller, path): controller is "cpu" on cgroup v1 and "" on v2."""
    lines = [line.split(":", 2) for line in _read("/proc/self/cgroup").splitlines()]
    paths = {name: path for _, names, path in lines for name in names.split(",")}
    kind = "cpu" if "cpu" in paths else ""
    if kind not in paths:
        raise FileNotFoundError("no cgroup that counts processors in /proc/self/cgroup")
    return kind, paths[kind]


def _cgroup_mount(controller: str) -> tuple[str, Path]:
    """(the cgroup that is mounted, where): see mountinfo in proc(5) for the fields."""
    for line in _read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        fstype, _, options = after.split(maxsplit=2)
        is_v1 = fstype == "cgroup" and controller in options.split(",")
        if is_v1 if controller else fstype == "cgroup2":
            return root, Path(mount)
    raise FileNotFoundError(f"cgroup mount of controller {controller!r}")


def quota_of(folder: Path) -> float | None:
    """Give how many cores a cgroup may use; None where it has no limit."""
    if (folder / "cpu.max").exists():
        quota, period = _read(folder / "cpu.max").split()
    elif (folder / "cpu.cfs_quota_us").exists():
        quota, period = (_read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    else:
        return None
    return None if quota in {"max", "-1"} else int(quota) / int(period)


def _read(path: str | Path) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace").strip()
