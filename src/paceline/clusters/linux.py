"""The few Linux calls that Python 3.11 does not have."""

from __future__ import annotations

import ctypes
import signal
from pathlib import Path
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
CLONE_NEWPID: Final = 0x20000000


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def unshare(flags: int) -> bool:
    """Move to new namespaces; False where the kernel does not allow it."""
    return bool(_LIBC.unshare(flags) == 0)


def pid_seen_by_proc() -> int:
    """Give this process's number as /proc has it: inside a PID namespace getpid() differs."""
    return int(Path("/proc/self").readlink().name)
