"""Where a seat receives messages: a socket that listens before anybody is told of it.

A seat makes its own, first of all, and tells the driver where it is; what is sent to a seat that
does not read yet waits for it. A Unix socket gets a name that is in no file system, a TCP socket
a free port: nothing is raced for.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Final, final

from paceline.comm.ticket import Medium

_WAITING_CONNECTIONS: Final = 128


@final
@dataclass(frozen=True)
class Mailbox:
    """Where a seat is reached, and the socket that listens there."""

    address: str
    listener: socket.socket


def make_mailbox(medium: Medium, host: str, port: int = 0) -> Mailbox:
    """Make one; over TCP it listens at an address of this host, and no other."""
    return tcp_mailbox(host, port) if medium == "tcp" else _unix_mailbox()


def _unix_mailbox() -> Mailbox:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("")  # the kernel chooses a name
    listener.listen(_WAITING_CONNECTIONS)
    name: bytes = listener.getsockname()
    return Mailbox(f"ipc://@{name[1:].decode()}", listener)


def tcp_mailbox(host: str, port: int = 0) -> Mailbox:
    """Make one that listens at a port of an address of IPv4 or IPv6; 0: any that is free."""
    is_v6 = ":" in host
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_WAITING_CONNECTIONS)
    shown = f"[{host}]" if is_v6 else host
    return Mailbox(f"tcp://{shown}:{listener.getsockname()[1]}", listener)
