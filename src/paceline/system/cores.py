"""How many cores a process may use; what cannot be told is None."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from paceline.system import cgroups

T = TypeVar("T")


def usable_cores() -> float | None:
    """How many cores this process may keep busy: the lower of its affinity and its quota."""
    allowed = _or_none(lambda: len(os.sched_getaffinity(0))) or os.cpu_count()
    limits = [float(limit) for limit in (allowed, quota_cores()) if limit is not None]
    return min(limits, default=None)


def quota_cores() -> float | None:
    """The lowest CPU quota of this process's cgroups, in cores; None where there is none."""
    quotas = [_or_none(partial(cgroups.quota_of, folder)) for folder in cpu_cgroups()]
    return min((quota for quota in quotas if quota is not None), default=None)


def cpu_cgroups() -> list[Path]:
    """The cgroup folders that can cap this process's CPU, innermost first; v1 where mounted."""
    return _or_none(lambda: list(cgroups.cpu_cgroups())) or []


def _or_none(part: Callable[[], T]) -> T | None:
    try:
        return part()
    except Exception:  # noqa: BLE001 - a machine we cannot read must not stop the run on it
        return None
