"""What a node's link has carried, as far as somebody counts it from outside the processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self, final

# Ethernet 14, IP 20, TCP 32 with its time stamps.
HEADER_BYTES: Final = 66


@final
@dataclass(frozen=True)
class Carried:
    """Bytes of payload and packets, since a link was made or between two moments."""

    sent_bytes: int = 0
    received_bytes: int = 0
    packets_sent: int = 0
    packets_received: int = 0

    def __add__(self, other: Carried) -> Carried:
        return Carried(*(mine + its for mine, its in zip(self._all, other._all, strict=True)))

    def __sub__(self, other: Carried) -> Carried:
        return Carried(*(mine - its for mine, its in zip(self._all, other._all, strict=True)))

    @property
    def _all(self) -> tuple[int, ...]:
        return self.sent_bytes, self.received_bytes, self.packets_sent, self.packets_received

    @classmethod
    def of(cls, sent: tuple[int, int], received: tuple[int, int]) -> Self:
        """Make it of bytes and packets as they were on the link, headers included."""
        (sent_bytes, packets_sent), (received_bytes, packets_received) = sent, received
        return cls(
            sent_bytes - HEADER_BYTES * packets_sent,
            received_bytes - HEADER_BYTES * packets_received,
            packets_sent,
            packets_received,
        )


Meter = Callable[[], Carried]
