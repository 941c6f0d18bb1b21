"""What a command leaves behind: processes, locks, files of its own making.

A marker in the environment is inherited by every process a command starts, whatever it does to
its parents, session or namespaces; so nothing can hide from `processes_with`.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

_MARK: Final = "PACELINE_TEST_MARK"
_PLACES: Final = (Path("/tmp"), Path("/dev/shm"), Path("/var/tmp"))  # noqa: S108


@final
@dataclass
class Witness:
    """Remembers what there was before, to tell what is new after."""

    prefix: tuple[str, ...] = ()
    """What the command is to be started with."""
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    files: frozenset[Path] = field(default_factory=lambda: frozenset(temporary_files()))

    @property
    def environment(self) -> dict[str, str]:
        """The environment to start the command with."""
        return {**os.environ, _MARK: self.mark}

    def processes(self) -> list[int]:
        """Pids of the processes that descend from the command, wherever they are now."""
        wanted = f"{_MARK}={self.mark}".encode()
        return [pid for pid in _pids() if wanted in _read(f"/proc/{pid}/environ")]

    def memfds(self) -> list[str]:
        """Memory files that those processes hold."""
        held = []
        for pid in self.processes():
            for link in Path(f"/proc/{pid}/fd").iterdir():
                target = str(link.readlink())
                held += [target] if target.startswith("/memfd:") else []
        return held

    def locks(self) -> list[str]:
        """File locks that those processes hold."""
        pids = {str(pid) for pid in self.processes()}
        return [row for row in _read("/proc/locks").decode().splitlines() if row.split()[4] in pids]

    def new_files(self) -> set[Path]:
        """Files in the usual places for temporary ones that were not there before."""
        return set(temporary_files() - self.files)


def unfinished_files(folder: Path) -> list[Path]:
    """Files that were being written when their writer died."""
    return [path for path in folder.rglob("*") if path.name.endswith((".tmp", ".part"))]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def temporary_files() -> set[Path]:
    return {path for place in _PLACES if place.is_dir() for path in place.iterdir()}
