"""What a seat's own process has used, as the kernel counts it for the process itself.

Exact over any time, where a monitor sees a process now and then, and in ticks of 10 ms.
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
_FORGET_PEAK: Final = "5"  # proc(5): reset the peak resident set size to the current one


@final
class ProcessUsage:
    """Counts from the moment it is made: all threads, and children that have been waited for."""

    def __init__(self) -> None:
        self._cpu_s = _cpu_s()
        self._peak_bytes = peak_bytes()
        self._knows_peak = _forget_peak()

    @contextlib.contextmanager
    def left_out(self) -> Iterator[None]:
        """Count no processor time of what is done inside."""
        before_s = _cpu_s()
        yield
        self._cpu_s += _cpu_s() - before_s

    def table(self) -> dict[str, float | None]:
        """Give them as fields of a seat's totals.

        `memory_peak_bytes` is of the whole life of the process, `own_peak_bytes` since this was
        made, without what it shares with others; None where the kernel does not tell.
        """
        return {
            "process_cpu_s": _cpu_s() - self._cpu_s,
            "memory_peak_bytes": max(self._peak_bytes, peak_bytes()),
            "own_peak_bytes": _own_peak_bytes() if self._knows_peak else None,
        }


def peak_bytes() -> int:
    """The most that was resident at once, with what is shared with other processes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _forget_peak() -> bool:
    try:
        _CLEAR.write_text(_FORGET_PEAK)
    except OSError:  # not every kernel has it, and not every container lets it be written
        return False
    return True


def _own_peak_bytes() -> int | None:
    """The peak, less what is of files or shared now: that hardly changes while training."""
    words = _STATUS.read_text().split()
    try:
        peak, *shared = (
            int(words[words.index(each) + 1]) for each in ("VmHWM:", "RssFile:", "RssShmem:")
        )
    except ValueError:
        return None
    return 1024 * (peak - sum(shared))
