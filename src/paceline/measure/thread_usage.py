"""What a thread has had of a processor, and for how long it stood in line for one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import final


@final
class ThreadUsage:
    """Counts from the moment it is made, for the thread that makes it."""

    def __init__(self) -> None:
        self._cpu_s = time.thread_time()
        self._in_line_s = _in_line_s()

    def table(self) -> dict[str, float | None]:
        """Give both as fields of a seat's totals; None where the kernel keeps no such account."""
        now_s, before_s = _in_line_s(), self._in_line_s
        waited_s = None if now_s is None or before_s is None else max(0.0, now_s - before_s)
        return {"cpu_s": time.thread_time() - self._cpu_s, "ready_s": waited_s}


def _in_line_s() -> float | None:
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None
