"""How one vector of parameters is split: into chunks, and these over servers.

Chunks are dealt out to the servers in turn. Back-propagation finishes the end of the vector first,
so every server has something to take from its beginning to its end, and no link idles while
another is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, final

from paceline.errors import Problem, SpecError

if TYPE_CHECKING:
    from torch import Tensor

CHUNK_BITS: Final = 20
"""Of a message's tag, those that number its chunk."""
MOST_CHUNKS: Final = 1 << CHUNK_BITS
_ALIGNED_VALUES: Final = 16


@final
@dataclass(frozen=True)
class Chunk:
    """A stretch of the whole vector that travels and is applied at once."""

    server: int
    index: int
    """Its number among those of its server, in the order of the vector."""
    start: int
    stop: int

    @property
    def num_values(self) -> int:
        return self.stop - self.start


def dealt(num_values: int, num_servers: int, values_per_chunk: int) -> list[list[Chunk]]:
    """Cut a vector into chunks of equal length, as many for each server; gives each server's.

    There are no empty ones, but for a server that has no other, so that it can reply.
    """
    # Long ones begin where the processor likes vectors to begin.
    unit = _ALIGNED_VALUES if values_per_chunk >= _ALIGNED_VALUES**2 else 1
    num_units, most_units = -(-num_values // unit), max(1, values_per_chunk // unit)
    rounds = max(1, -(-num_units // (num_servers * most_units)))
    if rounds > MOST_CHUNKS:
        reason = f"cuts a server's part into {rounds:,}; the limit is {MOST_CHUNKS:,}"
        raise SpecError([Problem("strategy.chunk_bytes", f"{values_per_chunk} values", reason)])
    count = rounds * num_servers
    bounds = [min(num_values, num_units * each // count * unit) for each in range(count + 1)]
    stretches = list(pairwise(bounds))
    return [_chunks(server, stretches[server::num_servers]) for server in range(num_servers)]


def _chunks(server: int, stretches: Sequence[tuple[int, int]]) -> list[Chunk]:
    full = [each for each in stretches if each[0] < each[1]] or stretches[:1]
    return [Chunk(server, index, *stretch) for index, stretch in enumerate(full)]


def offsets(chunks: Sequence[Chunk]) -> list[int]:
    """Say where each chunk of a server begins in the server's own part."""
    starts = [0]
    for chunk in chunks:
        starts.append(starts[-1] + chunk.num_values)
    return starts[:-1]


def part_of(whole: Tensor, chunks: Sequence[Chunk]) -> Tensor:
    """Put a server's chunks one after the other."""
    import torch

    return torch.cat([whole[chunk.start : chunk.stop] for chunk in chunks])


def server_part(num_rows: int, num_servers: int, server: int) -> slice:
    """Give a server its equal part of a table's rows."""
    return slice(num_rows * server // num_servers, num_rows * (server + 1) // num_servers)


def stops_of(rows: Tensor, num_rows: int, num_servers: int) -> list[int]:
    """Say where, among ascending row numbers, those of each server's part end."""
    if num_servers == 1:
        return [rows.numel()]
    import torch

    ends = [server_part(num_rows, num_servers, each).stop for each in range(num_servers)]
    return [int(stop) for stop in torch.searchsorted(rows, torch.tensor(ends))]
