"""What the kernel is told and asked of links in its own words, where pyroute2 is no help.

A queueing discipline counts true packets, as they leave; the interface below it counts the
super-packets that segmentation makes of them later. pyroute2 could read this too, in ten times
the time, which twice a second on every node is not nothing. How large those lumps may be on IPv4
it cannot say at all.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

_RTM_SETLINK: Final = 19
_RTM_GETQDISC: Final = 38
_REQUEST_ACK: Final = 0x5  # NLM_F_REQUEST | NLM_F_ACK
_REQUEST_DUMP: Final = 0x301  # NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH
_DONE: Final = 3
_ERROR: Final = 2
_GSO_MAX_SIZE: Final = 41
_GSO_IPV4_MAX_SIZE: Final = 63
_TCA_STATS2: Final = 7
_STATS_BASIC: Final = 1
_STATS_PACKETS: Final = 8
_ROOT: Final = 0xFFFFFFFF
_MOST_BYTES: Final = 1 << 16

_HEADER: Final = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, pid
_QUEUE: Final = struct.Struct("=B3xiIII")  # tcmsg: family, interface, handle, parent, info
_LINK: Final = struct.Struct("=BxHiII")  # ifinfomsg: family, type, interface, flags, change
_ATTRIBUTE: Final = struct.Struct("=HH")
_NUMBER: Final = struct.Struct("=HHI")
_BASIC: Final = struct.Struct("=QI")


def limit_lumps(interface: int, num_bytes: int) -> None:
    """Have packets leave an interface of this namespace in lumps of so many bytes at most."""
    limits = [
        _NUMBER.pack(_NUMBER.size, kind, num_bytes) for kind in (_GSO_MAX_SIZE, _GSO_IPV4_MAX_SIZE)
    ]
    told = b"".join([_LINK.pack(0, 0, interface, 0, 0), *limits])
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as asked:
        asked.send(_HEADER.pack(_HEADER.size + len(told), _RTM_SETLINK, _REQUEST_ACK, 0, 0) + told)
        (error,) = struct.unpack_from("=i", asked.recv(_MOST_BYTES), _HEADER.size)
    if error:
        raise OSError(-error, f"segments of {num_bytes} bytes: {os.strerror(-error)}")


@final
@dataclass(frozen=True)
class PassedBytes:
    """What has left through a queue since it was made."""

    num_bytes: int
    """With all headers."""
    num_packets: int


@final
class Queues:
    """The queues of the network namespace in which this was made, also when we have left it."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)

    def passed(self, interface: int) -> PassedBytes:
        """Say what has left through an interface's outermost queue."""
        length = _HEADER.size + _QUEUE.size
        asked = _HEADER.pack(length, _RTM_GETQDISC, _REQUEST_DUMP, 0, 0)
        self._socket.send(asked + _QUEUE.pack(0, interface, 0, 0, 0))
        found = [each for index, each in self._answers() if index == interface]
        return found[0] if found else PassedBytes(0, 0)

    def _answers(self) -> Iterator[tuple[int, PassedBytes]]:
        while True:
            data = self._socket.recv(_MOST_BYTES)
            while data:
                length, kind, *_ = _HEADER.unpack_from(data)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OSError("the kernel does not report its queue counters")
                _, index, _, parent, _ = _QUEUE.unpack_from(data, _HEADER.size)
                if parent == _ROOT:
                    yield index, _counted(data[_HEADER.size + _QUEUE.size : length])
                data = data[_aligned(length) :]

    def close(self) -> None:
        self._socket.close()


def _counted(attributes: bytes) -> PassedBytes:
    told = dict(_attributes(dict(_attributes(attributes)).get(_TCA_STATS2, b"")))
    num_bytes, num_packets = _BASIC.unpack_from(told[_STATS_BASIC])
    if _STATS_PACKETS in told:  # only where 32 bits do not suffice
        (num_packets,) = struct.unpack_from("=Q", told[_STATS_PACKETS])
    return PassedBytes(num_bytes, num_packets)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        yield kind & 0x3FFF, data[_ATTRIBUTE.size : length]
        data = data[_aligned(length) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
