"""How a strategy exchanges gradients, as far as time is concerned; strategies describe themselves.

A strategy of somebody's own that describes nothing cannot be planned, and a plan says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, final

BUCKET_BYTES: Final = 4 << 20
CHUNK_BYTES: Final = 1 << 20
LEAST_CHUNKS: Final = 8
"""Into how many chunks a server's part is cut, so that some are answered while others travel."""
LEAST_CHUNK_BYTES: Final = 1 << 18
"""Smaller ones cost more to handle than they bring."""
WINDOW: Final = 8
"""How many chunks of one server a worker waits for, without overlap."""
IN_TRANSPORT: Final = 16
"""How many chunks are on their way to one server, with overlap."""


def chunk_bytes_of(num_bytes: float, num_servers: int, most: int) -> int:
    """How large the chunks of a model are: of a small one smaller than they may be."""
    even = int(num_bytes / (num_servers * LEAST_CHUNKS))
    return min(most, max(even, LEAST_CHUNK_BYTES))


@final
@dataclass(frozen=True, kw_only=True)
class NoExchange:
    """Nothing is exchanged."""


@final
@dataclass(frozen=True, kw_only=True)
class AllReducePattern:
    """All workers average their gradients bucket by bucket, and each applies the update."""

    bucket_bytes: int = BUCKET_BYTES
    first_bucket_bytes: int | None = None
    """Where the first bucket has a size of its own."""
    shares_memory: bool = True
    """Whether workers of one node meet in its memory, and only one of them talks to others."""
    algorithm: Literal["ring", "halving", "auto"] = "ring"
    """`auto` is whichever is quicker."""
    overlap: bool = True
    """Whether buckets leave during back-propagation."""


@final
@dataclass(frozen=True, kw_only=True)
class Servers:
    """Servers keep the parameters; workers push gradients in chunks, and get new ones back."""

    num_servers: int = 1
    apart: bool = False
    """Whether servers have nodes of their own."""
    chunk_bytes: int = CHUNK_BYTES
    averaged: bool = True
    """Whether an update waits for the gradients of all workers, but for `backup`."""
    backup: int = 0
    staleness: int | None = None
    """How many steps ahead of the slowest a worker may be; None: any number."""
    overlap: bool = False
    """Whether chunks leave during back-propagation, and forward waits for its own layer only."""
    whole: bool = False
    """Whether a push that is an update of its own is applied and answered when all of it is in."""
    moves_rows: bool = True
    """Whether only the rows of a table that a batch touches travel."""

    @property
    def is_one_for_all(self) -> bool:
        """Whether workers share one server and wait for none."""
        return self.num_servers == 1 and not self.averaged and self.staleness is None

    def overlaps(self, num_bytes: int, *, has_rows: bool = False) -> bool:
        """Whether a model of so many bytes is exchanged while it computes: not one chunk alone."""
        return self.overlap and num_bytes > self.chunk_of(num_bytes) and not has_rows

    def chunk_of(self, num_bytes: float) -> int:
        """How large the chunks of a model of so many bytes are."""
        return chunk_bytes_of(num_bytes, self.num_servers, self.chunk_bytes)


ExchangePattern = NoExchange | AllReducePattern | Servers


def as_in_script(exchange: ExchangePattern) -> ExchangePattern:
    """Give what is exchanged from a script's own loop: only after its backward pass has ended."""
    return exchange if isinstance(exchange, NoExchange) else replace(exchange, overlap=False)
