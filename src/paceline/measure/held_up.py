"""Whether a process gets the processors it wants: how long its threads stood in line for one."""

from __future__ import annotations

from pathlib import Path
from typing import final


@final
class HeldUp:
    """How long threads of this process could have run, but had no processor, from now on.

    A thread that ends takes its account with it, so this is rather too little than too much.
    """

    def __init__(self) -> None:
        self._before_s = _in_line_s()
        self._thread_before_s = _thread_in_line_s()

    def so_far_s(self) -> float | None:
        """Sum it up; None where the kernel keeps no such account."""
        now_s = _in_line_s()
        if now_s is None or self._before_s is None:
            return None
        return max(0.0, now_s - self._before_s)

    def thread_s(self) -> float | None:
        """The same of this thread alone, which must be the one that made this object."""
        now_s = _thread_in_line_s()
        if now_s is None or self._thread_before_s is None:
            return None
        return max(0.0, now_s - self._thread_before_s)

    def table(self) -> dict[str, float | None]:
        """Give both as fields of a seat's totals."""
        return {"held_up_s": self.so_far_s(), "ready_s": self.thread_s()}


def _thread_in_line_s() -> float | None:
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None


def _in_line_s() -> float | None:
    try:
        texts = [each.read_text() for each in Path("/proc/self/task").glob("*/schedstat")]
        return sum(int(text.split()[1]) for text in texts) / 1e9 if texts else None
    except (OSError, IndexError, ValueError):  # a thread has just ended, or another kernel
        return None
