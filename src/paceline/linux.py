"""The few Linux calls that Python 3.11 does not have."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def unshare(flags: int) -> None:
    """Move to new namespaces; raises `OSError` where the kernel does not allow it."""
    if _LIBC.unshare(flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def own_pid() -> int:
    """Give this process's number as /proc has it: inside a PID namespace getpid() differs."""
    return int(os.readlink("/proc/self"))  # noqa: PTH115 - a Path costs more than the call
