"""What is tried of the kernel, each in a child process of its own."""

from __future__ import annotations

import os

from paceline.system import linux


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


def try_links() -> None:
    """Make a bridge and a pair of interfaces."""
    from pyroute2 import IPRoute

    enter_network_namespace()
    with IPRoute() as route:
        route.link("add", ifname="b0", kind="bridge")
        route.link("add", ifname="v0", kind="veth", peer={"ifname": "v1"})


def try_queue(kind: str, **how: int) -> None:
    """Put a queueing discipline on an interface."""
    from pyroute2 import IPRoute

    enter_network_namespace()
    with IPRoute() as route:
        route.tc("add", kind, 1, "1:", **how)
