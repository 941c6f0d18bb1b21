"""The few Linux calls that Python 3.11 does not have."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
from collections.abc import Iterable
from typing import Final, final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_TIMERSLACK: Final = 29
_PR_SET_CHILD_SUBREAPER: Final = 36
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000
_MS_BIND: Final = 0x1000
_MS_PRIVATE_TREE: Final = 0x40000 | 0x4000
# What glibc's mallopt can be told, and the largest of its blocks that is not mapped anew each time.
_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
_MOST_KEPT_BYTES: Final = 1 << 28
_MOST_NOT_MAPPED_BYTES: Final = 1 << 25
_FUTEX_WAIT: Final = 0
_FUTEX_WAKE: Final = 1
# The call has no function in libc, and its number is the machine's; 98 on all newer ones.
_OLDER_FUTEX: Final = {"x86_64": 202, "i686": 240, "armv7l": 240, "ppc64le": 221, "s390x": 238}
_SYS_FUTEX: Final = ctypes.c_long(_OLDER_FUTEX.get(platform.machine(), 98))


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def name_process(name: str) -> None:
    """Give this process a name that `ps` and `top` show; the kernel keeps 15 bytes of it.

    To be called by its first thread: each thread has a name of its own, and starts with that of
    the one that made it.
    """
    _LIBC.prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)


def wipe_variable(name: str) -> None:
    """Overwrite a variable's value where this process was given it.

    /proc/PID/environ shows that memory for as long as the process lives, whatever was removed.
    """
    _LIBC.getenv.restype = ctypes.c_void_p
    value = _LIBC.getenv(name.encode())
    if value:
        ctypes.memset(value, ord("x"), len(ctypes.string_at(value)))


def wake_promptly() -> None:
    """Have this thread's sleeps end when they should, not up to 50 microseconds later."""
    _LIBC.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def allow_files(number: int) -> None:
    """Let this process have more files open than usual, so far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        number = min(number, hard)
    if soft not in (resource.RLIM_INFINITY, number) and soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


def unshare(flags: int) -> None:
    """Move to new namespaces; raises `OSError` where the kernel does not allow it."""
    _succeed(_LIBC.unshare(flags))


def hide(paths: Iterable[str]) -> None:
    """Have files look empty to this process and those it starts, and to nobody else.

    Raises `OSError` where the kernel does not allow it. Whoever is not root becomes it, inside; to
    root that may not, a namespace of its own would close files of others that it may change.
    """
    try:
        unshare(CLONE_NEWNS)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        become_root_inside()
        unshare(CLONE_NEWNS)
    _succeed(_LIBC.mount(b"none", b"/", None, ctypes.c_ulong(_MS_PRIVATE_TREE), None))
    for path in paths:
        flags = ctypes.c_ulong(_MS_BIND)
        _succeed(_LIBC.mount(b"/dev/null", os.fsencode(path), None, flags, None))


def _succeed(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def keep_freed_memory() -> None:
    """Have malloc keep what is freed, up to a bound, for what is asked for next.

    By itself it gives a message's half megabyte back to the kernel, only to fetch it again for the
    next one, page by page: that took half of the time of a large all-reduce over messages.
    """
    if not hasattr(_LIBC, "mallopt"):  # another libc than glibc
        return
    _LIBC.mallopt(_M_MMAP_THRESHOLD, _MOST_NOT_MAPPED_BYTES)
    _LIBC.mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT_BYTES)
    _LIBC.mallopt(_M_TOP_PAD, _MOST_NOT_MAPPED_BYTES // 2)


def setns(descriptor: int, kind: int) -> None:
    """Move this thread to a namespace that a descriptor leads to."""
    _succeed(_LIBC.setns(descriptor, kind))


def become_root_inside() -> None:
    """Move to a user namespace of our own, in which this user is root.

    Root, because a program loses its rights when it starts another under any other number.
    """
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"0 {user} 1"),
        ("gid_map", f"0 {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - as own_pid
            file.write(text)


def own_pid() -> int:
    """Give this process's number as /proc has it: inside a PID namespace getpid() differs."""
    return int(os.readlink("/proc/self"))  # noqa: PTH115 - a Path costs more than the call


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


@final
class Futex:
    """A 32-bit word of shared memory that processes can sleep on until another changes it.

    Whoever maps the memory can make one at the same place; nothing else has to be handed over.
    """

    def __init__(self, address: int, patience_ms: int) -> None:
        self._address = ctypes.c_void_p(address)
        self._patience = ctypes.byref(_Timespec(0, patience_ms * 1_000_000))
        self._wait, self._wake = ctypes.c_int(_FUTEX_WAIT), ctypes.c_int(_FUTEX_WAKE)
        self._all = ctypes.c_int(0x7FFFFFFF)

    def wait(self, seen: int) -> bool:
        """Sleep while the word is what was seen; returns False when patience came to its end."""
        known = ctypes.c_uint32(seen)
        call = (_SYS_FUTEX, self._address, self._wait, known, self._patience, None, None)
        return _LIBC.syscall(*call) == 0 or ctypes.get_errno() != errno.ETIMEDOUT

    def wake(self) -> None:
        """Wake everybody who sleeps on the word; to be called after it was changed."""
        _LIBC.syscall(_SYS_FUTEX, self._address, self._wake, self._all, None, None, None)
