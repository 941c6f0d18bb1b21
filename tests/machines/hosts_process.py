"""Makes hosts for tests: namespaces with everything of their own, behind links of one network.

    python -m tests.machines.hosts_process '{"hosts": ["a", "b"], "bits_per_s": 1e9, ...}'

Says in JSON which process is the first of each host, and where the host is reached. Each line of
standard input names a host whose link is to be cut, and is answered. When it ends, all hosts end.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from pyroute2 import IPRoute

from paceline.clusters.emulated.network import Link, Node, NodeNetwork, gain_rights
from paceline.system import linux

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUTS: Final = 0x04000000
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_PRIVATE: Final = 1 << 18
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    asked: dict[str, Any] = json.loads(sys.argv[1])
    gain_rights()
    rate = asked["bits_per_s"]
    network = NodeNetwork([Link(name, rate) for name in asked["hosts"]])
    made = {}
    for name, node in network.nodes.items():
        made[name] = {"pid": _start(node, asked), "address": node.address}
    _say(made)
    for line in sys.stdin:
        _cut(network.nodes[line.strip()])
        _say("cut")


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201 - whoever started it reads this


def _cut(node: Node) -> None:
    """Pull a host's cable out at the other end: the host itself is told nothing."""
    with IPRoute() as route:  # it is at the bridge, as we are
        route.link("set", index=node.port, state="down")


def _start(node: Node, asked: dict[str, Any]) -> int:
    """Fork the first process of a host; returns its pid when everything in it is set up."""
    ready, tell = os.pipe()
    if not (pid := os.fork()):
        linux.die_with_parent()
        node.enter()
        linux.unshare(linux.CLONE_NEWPID | _CLONE_NEWNS | _CLONE_NEWUTS)
        if inner := os.fork():
            os.write(tell, str(inner).encode())
            os.close(tell)
            os.waitpid(inner, 0)
            os._exit(0)
        os.close(tell)
        _be_init(node.name, asked, ready)
    os.close(tell)
    with os.fdopen(ready) as told:
        inner = int(told.read())
    del pid
    return inner


def _be_init(name: str, asked: dict[str, Any], ready: int) -> None:
    linux.die_with_parent()
    os.close(ready)
    kept = {path: os.open(path, os.O_PATH) for path in asked["keeps"]}
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _mount("proc", "/proc", "proc", 0)
    for folder in ("/tmp", "/dev/shm", "/run", asked["home"]):
        _mount("tmpfs", folder, "tmpfs", 0)
    for path, descriptor in kept.items():
        Path(path).mkdir(parents=True, exist_ok=True)
        _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC)
        os.close(descriptor)
    socket.sethostname(name)
    for command in asked["commands"].get(name, []):
        subprocess.Popen(command, stdin=subprocess.DEVNULL)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            os.read(0, 1)
            os._exit(0)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    arguments = [None if each is None else each.encode() for each in (source, target, kind)]
    if _LIBC.mount(*arguments, flags, None):
        error = ctypes.get_errno()
        raise OSError(error, f"{os.strerror(error)}: mount at {target}")


if __name__ == "__main__":
    main()
