"""How much processor a node may use: a cgroup a node, made before its seats, removed after them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, final

from paceline.cgroups import cpu_cgroups

# A node that has used up its share waits for the next period: the shorter, the more evenly it
# goes on. The kernel takes no quota below a millisecond.
_PERIOD_US: Final = 10_000
_LEAST_QUOTA_US: Final = 1000
# On a busy machine it takes a while until the last process inside is gone.
_PATIENCE_S: Final = 30.0
_LOOK_S: Final = 0.01


@final
class Caps:
    """The cgroups of a run's nodes. Where they may not be made, `refused` says why."""

    def __init__(self, cpus: Mapping[str, float], mark: str) -> None:
        self._folders: dict[str, Path] = {}
        self.refused = ""
        try:
            for node, number in cpus.items():
                self._folders[node] = _make(f"{_name(mark)}-{node}", number)
        except OSError as error:
            self.refused = f"{error.strerror or error}: {error.filename}"
            self.remove()

    def enter(self, node: str) -> None:
        """Move this process into its node's cgroup, where there is one."""
        if node in self._folders:
            (self._folders[node] / "cgroup.procs").write_text("0")

    def remove(self) -> None:
        """Remove them, as soon as nobody is inside any more."""
        _remove(self._folders.values())
        self._folders.clear()


def remove_left(mark: str) -> None:
    """Remove what is left of a run whose keeper had to be killed."""
    _remove(folder for above in cpu_cgroups() for folder in above.glob(f"{_name(mark)}-*"))


def _name(mark: str) -> str:
    return f"paceline-{mark}"


def _remove(folders: Iterable[Path]) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    for folder in folders:
        while folder.is_dir() and time.monotonic() < deadline_s:
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
        except OSError as error:
            folder.rmdir()
            refusals.append(error)
        else:
            return folder
    raise refusals[0] if refusals else OSError("no cgroup is mounted")


def _set_quota(folder: Path, cpus: float) -> None:
    period_us = max(_PERIOD_US, round(_LEAST_QUOTA_US / cpus))
    quota_us = round(cpus * period_us)
    if (folder / "cpu.cfs_quota_us").exists():
        (folder / "cpu.cfs_period_us").write_text(str(period_us))
        (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        return
    with (folder / "cpu.max").open("r+") as file:  # r+: a missing file must not be created
        file.write(f"{quota_us} {period_us}")
