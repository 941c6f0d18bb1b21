"""Where the seats of one host receive messages: sockets that listen before any seat is there.

They are made by whoever forks the seats, so every seat knows the address of every other, nothing
is raced for, and what is sent to a seat that has not begun yet waits for it. A Unix socket gets a
name that is in no file system, a TCP socket a free port of the loopback device.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, final

Medium = Literal["unix", "tcp"]

_WAITING_CONNECTIONS: Final = 128


@final
@dataclass(frozen=True)
class Mailbox:
    """Where a seat is reached, and the socket that listens there."""

    address: str
    listener: socket.socket


def make_mailboxes(names: Iterable[str], medium: Medium) -> dict[str, Mailbox]:
    """Make one for each seat."""
    makers = {"unix": _unix_mailbox, "tcp": tcp_mailbox}
    return {name: makers[medium]() for name in names}


def keep_only(name: str, mailboxes: Mapping[str, Mailbox]) -> None:
    """Close all but one: a seat's mailbox is to vanish with the seat, not with its last relative.

    With a name that nobody has, all are closed.
    """
    for each, mailbox in mailboxes.items():
        if each != name:
            mailbox.listener.close()


def _unix_mailbox() -> Mailbox:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("")  # the kernel chooses a name
    listener.listen(_WAITING_CONNECTIONS)
    name: bytes = listener.getsockname()
    return Mailbox(f"ipc://@{name[1:].decode()}", listener)


def tcp_mailbox(host: str = "127.0.0.1") -> Mailbox:
    """Make one that listens at a free port."""
    listener = socket.create_server((host, 0), backlog=_WAITING_CONNECTIONS)
    return Mailbox(f"tcp://{host}:{listener.getsockname()[1]}", listener)
