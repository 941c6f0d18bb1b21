"""What a seat's threads have had of a processor, and for how long they stood in line for one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

from paceline.measure.process_usage import ProcessUsage

_TASKS: Final = Path("/proc/self/task")


@final
class ThreadUsage:
    """Counts from the moment it is made, for the thread that makes it, and for all beside it.

    A seat also exchanges in threads of its own, and of its libraries: if one of these has no
    processor, the seat waits although its own thread never stood in line.
    """

    def __init__(self, *, is_alone: bool = True) -> None:
        """`is_alone`: no other seat shares its process, so that the process's use is its own."""
        self._own = Path("/proc/thread-self").readlink().name
        self._process = ProcessUsage() if is_alone else None
        self._cpu_s = time.thread_time()
        self._before = in_line_s()

    @contextlib.contextmanager
    def left_out(self) -> Iterator[None]:
        """Count nothing of what is done inside: it is off the training clock, too."""
        cpu_s, waited = time.thread_time(), in_line_s()
        with contextlib.nullcontext() if self._process is None else self._process.left_out():
            yield
        self._cpu_s += time.thread_time() - cpu_s
        for thread, now_s in in_line_s().items():
            more_s = now_s - waited.get(thread, 0.0)
            self._before[thread] = self._before.get(thread, 0.0) + more_s

    def table(self) -> dict[str, float | None]:
        """Give them as fields of a seat's totals; None where the kernel keeps no such account."""
        waited = {
            thread: max(0.0, now_s - self._before.get(thread, 0.0))
            for thread, now_s in in_line_s().items()
        }
        return {
            "cpu_s": time.thread_time() - self._cpu_s,
            "ready_s": waited.get(self._own),
            "most_ready_s": max(waited.values(), default=None),
            **({} if self._process is None else self._process.table()),
        }


def in_line_s() -> dict[str, float]:
    """How long each thread of this process was ready to run and had no processor, by its number."""
    found = {}
    for task in _TASKS.iterdir():
        with contextlib.suppress(OSError, IndexError, ValueError):  # ended, or not counted here
            found[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return found
