"""How much a link sends at once, and how large the lumps are in which packets travel.

A queue that holds a link to its rate lets through as much as a burst at once after it was idle,
then a lump of packets whenever it has saved up enough for one. A lump costs a timer, an interrupt
and a way through the kernel at each end of two links, however large it is. So small bursts are
true, and large lumps are cheap: with lumps of 64 KB, twelve Gbit/s in all are more than two cores
carry. Where there is little to carry, a burst is a millisecond. Where there is much, it is up to
four, and the lumps are as few as a small host can carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

_BURST_S: Final = 0.001
_MOST_BURST_S: Final = 0.004
# Slower links have five milliseconds, up to 64 KiB, and the slowest a few packets: timers are late
# by the same time at any rate.
_SLOW_BURST_S: Final = 0.005
_MOST_SLOW_BURST_BYTES: Final = 1 << 16
_LEAST_BURST_BYTES: Final = 1 << 13
# How many lumps all nodes together may send in a second.
_LUMPS_PER_S: Final = 3_000
# A queue cuts what is larger than its burst into packets, and then each is looked at by itself: at
# 500 Mbit/s that took several times the system's time. And while it saves up for a lump as large
# as its burst it has nothing to spare for a timer that is late.
_LUMPS_OF_BURST: Final = 2
LEGACY_LUMP_BYTES: Final = 1 << 16
"""What every kernel makes of IPv4; since Linux 6.3 a lump may be larger."""
_MOST_LUMP_BYTES: Final = 500_000


@final
class Bursts:
    """The bursts of a network's links, and the lumps that fit all of them."""

    def __init__(self, bits_per_s: Sequence[float]) -> None:
        affordable = int(sum(bits_per_s) / 8 / _LUMPS_PER_S)
        self._wanted_bytes = _LUMPS_OF_BURST * min(_MOST_LUMP_BYTES, affordable)
        least = min(self.of(each) for each in bits_per_s)
        self.lump_bytes = min(_MOST_LUMP_BYTES, least // _LUMPS_OF_BURST)

    def of(self, bits_per_s: float) -> int:
        """Say how many bytes a link sends at once after it was idle."""
        bytes_per_s = bits_per_s / 8
        slow = min(_MOST_SLOW_BURST_BYTES, max(_LEAST_BURST_BYTES, bytes_per_s * _SLOW_BURST_S))
        most = max(slow, bytes_per_s * _MOST_BURST_S)
        return int(min(most, max(slow, bytes_per_s * _BURST_S, self._wanted_bytes)))
