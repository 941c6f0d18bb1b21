"""Opens many connections to others' ports at once, says nothing, and holds them.

    python -m tests.machines.stranger NUMBER HOST:PORT...

Prints how many it has begun. When its input ends it prints in JSON what became of them.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import socket
import sys
from collections import Counter


def main() -> None:
    number, *targets = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = [_begun(targets[index % len(targets)]) for index in range(int(number))]
    print(len(held), flush=True)  # noqa: T201 - whoever started it reads this
    sys.stdin.read()
    print(json.dumps(Counter(map(_state, held))))  # noqa: T201


def _begun(target: str) -> socket.socket:
    host, _, port = target.rpartition(":")
    one = socket.socket()
    one.setblocking(False)
    began = one.connect_ex((host, int(port)))
    assert began in {0, errno.EINPROGRESS}, os.strerror(began)
    return one


def _state(one: socket.socket) -> str:
    error = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    try:
        one.getpeername()
    except OSError:
        return os.strerror(error) if error else "closed or never answered"
    return "held"


if __name__ == "__main__":
    main()
