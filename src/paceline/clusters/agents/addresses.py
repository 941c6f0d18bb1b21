"""Which address of this machine others are to call: the one that leads to them."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterable


def address_towards(host: str) -> str:
    """Give the address of this machine that leads to a host; nothing is sent."""
    family, kind, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        own: str = probe.getsockname()[0]
        return own


def address_for(host: str, others: Iterable[str]) -> str:
    """Give the address of this machine that a host is to call; raises `OSError` if there is none.

    The name of this machine often stands for a loopback address here: Debian and Ubuntu write
    `127.0.1.1 NAME` into /etc/hosts. Where its own agent calls from is where all others will look
    for its seats, so then it is the address that leads to the first of `others` with another one.
    """
    own = address_towards(host)
    if not is_loopback(own):
        return own
    for other in others:
        with contextlib.suppress(OSError):  # who needs that one will say so
            if not is_loopback(found := address_towards(other)):
                return found
    return own


def is_loopback(address: str) -> bool:
    """Whether no other machine reaches an address; of a name that is not known."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def no_way(error: OSError) -> str:
    """Say why no address of this machine leads to a host."""
    hint = "cluster.address names the address of this machine that it is to call"
    return f"no way leads there from here: {error.strerror or error}; behind a jump host, {hint}"
