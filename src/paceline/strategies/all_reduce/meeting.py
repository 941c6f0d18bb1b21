"""How the workers of torch's process groups find each other, and notice when one is gone.

Torch's own store listens at a port, for anybody. Gloo only needs to know where each worker listens,
which is told through the channel of the run: it lets nobody else in. Gloo's connections cannot tell
a worker that takes long from one that is gone, so the channel stays, and its pulses are felt.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Final, final

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from paceline.comm.base import Channel
from paceline.comm.vigil import Vigil
from paceline.errors import WireError
from paceline.strategies.base import Place
from paceline.system.descriptors import descriptors, held_socket

# From the moment that all are there, to connect takes milliseconds, or fails.
_CONNECT: Final = timedelta(seconds=60)
# Who is gone is noticed by the vigil; who only takes long is waited for.
_EXCHANGE: Final = timedelta(minutes=30)
_KEY_LENGTH: Final = struct.Struct("<I")


@final
class ChannelStore(Store):
    """What torch's workers tell each other: whoever sets a value sends it to all others.

    Used by one thread, and by nobody who counts or changes values: Gloo does neither.
    """

    def __init__(self, channel: Channel, others: Sequence[str]) -> None:
        super().__init__()
        self._channel = channel
        self._others = others
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: bytes | str) -> None:
        value = value.encode() if isinstance(value, str) else bytes(value)
        self._values[key] = value
        named = key.encode()
        packed = _KEY_LENGTH.pack(len(named)) + named + value
        for name in self._others:
            self._channel.send(name, torch.frombuffer(bytearray(packed), dtype=torch.uint8))

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._values[key]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all have been set; as long as the run goes on and everyone is there."""
        del timeout
        while not self.check(keys):
            self._take(bytes(self._channel.receive().memory))

    def check(self, keys: Sequence[str]) -> bool:
        return all(key in self._values for key in keys)

    def _take(self, packed: bytes) -> None:
        if len(packed) < _KEY_LENGTH.size:
            raise WireError("less than the length of a key")
        (length,) = _KEY_LENGTH.unpack_from(packed)
        start = _KEY_LENGTH.size + length
        self._values[packed[_KEY_LENGTH.size : start].decode()] = packed[start:]


def join_group(place: Place) -> Vigil:
    """Make the group of all workers; returns what notices when one of them is gone."""
    others = [name for name in place.roster.workers if name != place.name]
    before = set(descriptors())
    dist.init_process_group(
        "gloo",
        store=ChannelStore(place.channel, others),
        rank=place.rank,
        world_size=place.num_workers,
        timeout=_CONNECT,
    )
    dist.distributed_c10d._set_pg_timeout(_EXCHANGE)  # noqa: SLF001 - there is no public way
    return Vigil(place.channel, hanging_up(before))


def hanging_up(before: set[int], spared: Collection[int] = ()) -> Callable[[], None]:
    """Give what ends all connections made since: torch's, and ours that are of no use any more.

    Torch's `abort` leaves a worker waiting that waits already. Connections to or from the ports
    that are `spared` stay.
    """

    def hang_up() -> None:
        for descriptor in set(descriptors()) - before:
            with (
                contextlib.suppress(OSError),
                held_socket(descriptor) as held,
            ):  # no socket, or gone
                if _is_connection(held) and not _has_port(held, spared):
                    held.shutdown(socket.SHUT_RDWR)

    return hang_up


def _is_connection(held: socket.socket) -> bool:
    is_tcp = held.family in (socket.AF_INET, socket.AF_INET6)
    return is_tcp and not held.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)


def _has_port(held: socket.socket, ports: Collection[int]) -> bool:
    return held.getsockname()[1] in ports or held.getpeername()[1] in ports
