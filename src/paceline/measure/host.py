"""How busy the whole machine was, whoever used it: the seats of a run are not alone on it."""

from __future__ import annotations

import time
from typing import final

from paceline.measure.environment import cpu_seconds, disk_seconds


@final
class HostUse:
    """What cores and disks did from now on."""

    def __init__(self) -> None:
        self._cpu = cpu_seconds()
        self._disks = disk_seconds()
        self._began_s = time.monotonic()

    def cpu_percent(self) -> float | None:
        """Of all cores together; None where the kernel does not tell."""
        now = cpu_seconds()
        if now is None or self._cpu is None:
            return None
        used_s, there_were_s = (a - b for a, b in zip(now, self._cpu, strict=True))
        return min(100.0, 100 * used_s / there_were_s) if there_were_s > 0 else None

    def disk_percent(self) -> dict[str, float]:
        """The part of the time that each disk had something to do; of those that had any."""
        elapsed_s = time.monotonic() - self._began_s
        now = disk_seconds()
        busy_s = {
            name: now[name] - before_s for name, before_s in self._disks.items() if name in now
        }
        return {
            name: min(100.0, 100 * each / elapsed_s) for name, each in busy_s.items() if each > 0
        }
