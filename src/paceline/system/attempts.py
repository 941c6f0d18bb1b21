"""Trying what the kernel allows, in a child process that ends at once and takes all with it."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Callable

ATTEMPT_TIMEOUT_S = 10


def attempt(action: Callable[[], None], timeout_s: int | None = None) -> str:
    """Do it in a child of its own; "" if it went well, else what went wrong."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of forking beside threads; the child makes system calls and ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _act_and_exit(action, writer, timeout_s or ATTEMPT_TIMEOUT_S)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status == 0 and told:
        return str(json.loads(told))
    return f"the trial ended with code {os.waitstatus_to_exitcode(status)}"


def _words(error: Exception) -> str:
    """Say what went wrong; of netlink's number and words, which are a tuple as text, the words."""
    if len(error.args) > 1 and not isinstance(error, OSError):
        return str(error.args[1])
    return str(error) or type(error).__name__


def _act_and_exit(action: Callable[[], None], writer: int, timeout_s: int) -> None:
    """What the child does; it never returns into the parent's code."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(timeout_s)
        try:
            action()
            error = ""
        except Exception as caught:  # noqa: BLE001 - whatever it is, it is the answer
            error = _words(caught)
        os.write(writer, json.dumps(error).encode())
        os._exit(0)
    finally:
        os._exit(1)
