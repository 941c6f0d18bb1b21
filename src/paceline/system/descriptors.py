"""What this process has open, looked at by number."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path


def descriptors() -> Iterator[int]:
    """Give the numbers of all files and sockets that this process has open."""
    return (int(each.name) for each in Path("/proc/self/fd").iterdir())


def held_socket(descriptor: int) -> socket.socket:
    """Give another descriptor of a socket, which stays that socket whatever becomes of the first.

    Raises `OSError` where it is no socket, or gone, and leaves nothing open then.
    """
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
