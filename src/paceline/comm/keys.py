"""Keys made for one run: its seats know each other by them, and nobody else is let in.

Every seat has a pair of its own. The secret half is known to that seat alone, and to whoever
started it; it is handed over in memory and never written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import final


@final
@dataclass(frozen=True)
class Keys:
    """What one seat knows: its own pair, and the public key of every seat, all in Z85."""

    public: bytes
    secret: bytes = field(repr=False)
    seats: Mapping[str, bytes]


def make_keys(names: Iterable[str]) -> dict[str, Keys]:
    """Make a pair for each seat."""
    import zmq

    pairs = {name: zmq.curve_keypair() for name in names}
    seats = {name: public for name, (public, _) in pairs.items()}
    return {name: Keys(public, secret, seats) for name, (public, secret) in pairs.items()}
