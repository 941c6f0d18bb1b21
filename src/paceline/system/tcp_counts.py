"""How many bytes this process has sent to whom over TCP, as the kernel counts them."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from typing import Final, final

from paceline.system.descriptors import descriptors, held_socket

# Where Linux keeps `tcpi_bytes_acked` in `struct tcp_info`: what the other end has received.
_BYTES_ACKED: Final = struct.Struct("=120xQ")
_SIZE: Final = 256

Addresses = tuple[str, int, str, int]


@final
class TcpCounts:
    """Sums over the connections of this process, by the address at the other end.

    A connection counts as far as it was seen: look before some are closed.
    """

    def __init__(self) -> None:
        self._before: dict[Addresses, int] = {}
        self._seen: dict[Addresses, int] = {}

    def begin(self) -> None:
        """Count from here on."""
        self._before = _connections()
        self._seen = {}

    def look(self) -> None:
        """Take note of the connections that there are."""
        self._seen |= _connections()

    def by_peer(self) -> Counter[str]:
        """Give the bytes that were sent since, by address."""
        found: Counter[str] = Counter()
        for ends, num_bytes in self._seen.items():
            found[ends[2]] += num_bytes - self._before.get(ends, 0)
        return found


def _connections() -> dict[Addresses, int]:
    found = {}
    for descriptor in descriptors():
        try:
            with held_socket(descriptor) as held:
                if held.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                own, other = held.getsockname(), held.getpeername()
                told = held.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
        except OSError:
            continue  # not a socket, not connected, or gone
        if len(told) >= _BYTES_ACKED.size:
            (found[_plain(own[0]), own[1], _plain(other[0]), other[1]],) = _BYTES_ACKED.unpack_from(
                told
            )
    return found


def _plain(host: str) -> str:
    """Write an IPv4 address as such, where a socket has it within IPv6."""
    return host.removeprefix("::ffff:")
