"""What is tried of the kernel, each in a child process of its own."""

from __future__ import annotations

import os
import subprocess

from paceline import linux
from paceline.attempts import ATTEMPT_TIMEOUT_S


def _enter_namespace(flag: int) -> None:
    try:
        linux.unshare(flag)
    except PermissionError:
        linux.become_root_inside()
        linux.unshare(flag)


def enter_network_namespace() -> None:
    _enter_namespace(linux.CLONE_NEWNET)


def try_pid_namespace() -> None:
    _enter_namespace(linux.CLONE_NEWPID)
    pid = os.fork()  # the caller itself stays outside; its first child is number 1 inside
    if pid == 0:
        os._exit(0 if os.getpid() == 1 else 1)
    if os.waitpid(pid, 0)[1] != 0:
        raise OSError("the first process inside is not number 1")


def run_in_network_namespace(command: str) -> None:
    enter_network_namespace()
    done = subprocess.run(
        ("sh", "-c", command),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ATTEMPT_TIMEOUT_S / 2,  # so that the child's alarm leaves no grandchild behind
        check=False,
    )
    if done.returncode != 0:
        raise OSError(" ".join((done.stderr or done.stdout).split()))
