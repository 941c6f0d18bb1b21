"""What a command leaves behind: processes, locks, files of its own making.

A marker in the environment is inherited by every process a command starts, whatever it does to
its parents, session or namespaces; so nothing can hide from `processes_with`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from paceline.system.cgroups import cpu_cgroups

_MARK: Final = "PACELINE_TEST_MARK"
_PLACES: Final = (Path("/tmp"), Path("/dev/shm"), Path("/var/tmp"))  # noqa: S108


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _memfds() -> Counter[str]:
    """Count the memory files of ours by name, over all processes."""
    found: Counter[str] = Counter()
    for pid in _pids():
        with contextlib.suppress(OSError):
            links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
            found.update(link for link in links if link.startswith("/memfd:paceline"))
    return found


def locks_below(folder: Path) -> list[str]:
    """File locks that somebody holds on a file below a folder, as the kernel lists them.

    Others on the machine lock files too: theirs are not counted.
    """
    device = _device_of(folder)
    wanted = set()
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
            wanted.add(f"{device}:{path.lstat().st_ino}")
    rows = _read("/proc/locks").decode().splitlines()
    return [row for row in rows if wanted.intersection(row.split())]


def _device_of(folder: Path) -> str:
    """Name a folder's file system as /proc/locks does; what stat says may be a part of it."""
    below = folder.resolve()
    mounts = [line.split()[:5] for line in _read("/proc/self/mountinfo").decode().splitlines()]
    above = [mount for mount in mounts if below.is_relative_to(mount[4])]
    deepest = max(reversed(above), key=lambda mount: len(mount[4]))  # of two there, the later
    major, minor = map(int, deepest[2].split(":"))
    return f"{major:02x}:{minor:02x}"


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def _namespaces_of(pids: list[int]) -> set[str]:
    """Network namespaces that they are in; nobody being in one, the kernel removes it."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/ns/net"))  # noqa: PTH115
    return found


def _cgroups_of(pids: list[int]) -> set[Path]:
    """Cgroups of ours that they are in."""
    names = {
        line.rpartition("/")[2]
        for pid in pids
        for line in _read(f"/proc/{pid}/cgroup").decode().splitlines()
    }
    return {
        above / name
        for above in cpu_cgroups()
        for name in names
        if name.startswith("paceline-") and (above / name).is_dir()
    }


def _interfaces() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def _temporary_files() -> set[Path]:
    return {path for place in _PLACES if place.is_dir() for path in place.iterdir()}


@final
@dataclass
class Witness:
    """Remembers what there was before, to tell what is new after."""

    prefix: tuple[str, ...] = ()
    """What the command is to be started with."""
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    memfds: Counter[str] = field(default_factory=_memfds)
    files: set[Path] = field(default_factory=_temporary_files)
    interfaces: set[str] = field(default_factory=_interfaces)
    namespaces: set[str] = field(default_factory=set)
    cgroups: set[Path] = field(default_factory=set)

    @property
    def environment(self) -> dict[str, str]:
        """The environment to start the command with."""
        return {**os.environ, _MARK: self.mark}

    def processes(self) -> list[int]:
        """Pids of the processes that descend from the command, wherever they are now."""
        wanted = f"{_MARK}={self.mark}".encode()
        return [pid for pid in _pids() if wanted in _read(f"/proc/{pid}/environ")]

    def new_memfds(self) -> list[str]:
        """Memory files of ours that some process holds and none held before."""
        return sorted((_memfds() - self.memfds).elements())

    def look(self) -> None:
        """Note which namespaces and cgroups the command's processes are in."""
        pids = self.processes()
        self.namespaces |= _namespaces_of(pids) - _namespaces_of([os.getpid()])
        self.cgroups |= _cgroups_of(pids)

    def left_namespaces(self) -> set[str]:
        """Network namespaces that were noted and are still there."""
        return self.namespaces & _namespaces_of(_pids())

    def new_interfaces(self) -> set[str]:
        """Network interfaces of the host that were not there before."""
        return _interfaces() - self.interfaces

    def left_cgroups(self) -> set[Path]:
        """Cgroups that were noted and are still there."""
        return {folder for folder in self.cgroups if folder.is_dir()}

    def new_files(self) -> set[Path]:
        """Files in the usual places for temporary ones that were not there before."""
        return _temporary_files() - self.files


def unfinished_files(folder: Path) -> list[Path]:
    """Files that were being written when their writer died."""
    return [path for path in folder.rglob("*") if path.name.endswith((".tmp", ".part"))]
