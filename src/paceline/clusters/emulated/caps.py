"""How much processor a node may use: a cgroup a node, made before its seats, removed after them.

A cgroup has a name, and outlives its maker if that one is killed. So its name says who made it, and
whoever makes some next removes those of makers that are gone.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, final

from paceline.system.attempts import attempt
from paceline.system.cgroups import cpu_cgroups
from paceline.system.linux import own_pid
from paceline.system.waiting import time_left

# A node that has used up its share waits for the next period: the shorter, the more evenly it
# goes on. The kernel takes no quota below a millisecond, and no period above a second.
_PERIOD_US: Final = 10_000
_MOST_PERIOD_US: Final = 1_000_000
_LEAST_QUOTA_US: Final = 1000
_MOST_QUOTA_US: Final = 1e12
# A process that has hardly any processor takes a while to enter and end.
_TRIAL_S: Final = 60
# On a busy machine it takes a while until the last process inside is gone.
_PATIENCE_S: Final = 30.0
_LOOK_S: Final = 0.01


@final
class Caps:
    """The cgroups of a run's nodes. Where they may not be made, `refused` says why."""

    def __init__(self, cpus: Mapping[str, float], mark: str) -> None:
        _sweep()
        self._folders: dict[str, Path] = {}
        self.refused = ""
        for node, number in cpus.items():
            try:
                self._folders[node] = _make(f"{_name(mark)}-{_maker()}-{node}", number)
            except OSError as error:
                self.refused = f"{node} = {number:g}: {error}"
                self.remove()
                return

    def enter(self, node: str) -> None:
        """Move this process into its node's cgroup, where there is one."""
        if node in self._folders:
            _enter(self._folders[node])

    def remove(self) -> None:
        """Remove them, as soon as nobody is inside any more."""
        _remove(self._folders.values())
        self._folders.clear()


def remove_left(mark: str) -> None:
    """Remove what is left of a run whose keeper had to be killed."""
    _remove(_ours(f"{_name(mark)}-*"))


def _sweep() -> None:
    """Remove what is left of runs of which everybody was killed. One with somebody inside stays."""
    here = _pid_namespace()
    for folder in _ours(f"{_name('*')}-*"):
        made = _MADE.fullmatch(folder.name)
        if made is None or int(made["namespace"]) != here:
            continue
        if _started(int(made["pid"])) != int(made["started"]):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _ours(pattern: str) -> list[Path]:
    """Find cgroups in all places where one may have been made."""
    with contextlib.suppress(OSError):
        return [folder for above in cpu_cgroups() for folder in above.glob(pattern)]
    return []


def _name(mark: str) -> str:
    return f"paceline-{mark}"


_MADE: Final = re.compile(r"paceline-.*-(?P<namespace>\d+)\.(?P<pid>\d+)\.(?P<started>\d+)-node\d+")


def _maker() -> str:
    """Name this process for ever: pids are used again, and are others in other containers."""
    pid = own_pid()
    return f"{_pid_namespace()}.{pid}.{_started(pid)}"


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _started(pid: int) -> int | None:
    """When a process was started, in ticks since boot; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _enter(folder: Path) -> None:
    with (folder / "cgroup.procs").open("r+") as file:  # r+: a missing file must not be created
        file.write("0")


def _remove(folders: Iterable[Path]) -> None:
    left = time_left(_PATIENCE_S)  # for all of them together
    for folder in folders:
        while folder.is_dir() and next(left, 0.0) > 0:
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(_LOOK_S)


def _make(name: str, cpus: float) -> Path:
    """Make a cgroup in the nearest one that lets its children be capped."""
    refusals: list[OSError] = []
    for above in cpu_cgroups():
        folder = above / name
        try:
            folder.mkdir()
        except OSError as error:
            refusals.append(error)
            continue
        try:
            _set_quota(folder, cpus)
            _try_to_enter(folder)
        except OSError as error:
            _remove([folder])
            refusals.append(error)
        else:
            return folder
    raise refusals[0] if refusals else OSError("no cgroup is mounted")


def _try_to_enter(folder: Path) -> None:
    """See in a child that seats will be let in: theirs would be the failure otherwise."""
    refused = attempt(partial(_enter, folder), _TRIAL_S)
    if refused:
        raise OSError(refused)


def _set_quota(folder: Path, cpus: float) -> None:
    period_us = round(max(_PERIOD_US, min(_MOST_PERIOD_US, _LEAST_QUOTA_US / cpus)))
    quota_us = round(min(_MOST_QUOTA_US, cpus * period_us))
    if (folder / "cpu.cfs_quota_us").exists():
        (folder / "cpu.cfs_period_us").write_text(str(period_us))
        (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        return
    with (folder / "cpu.max").open("r+") as file:  # r+: as in _enter
        file.write(f"{quota_us} {period_us}")
