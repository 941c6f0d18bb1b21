"""How one vector of parameters is split: over servers, and each part into chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from paceline.errors import Problem, SpecError

if TYPE_CHECKING:
    from torch import Tensor

CHUNK_BITS: Final = 20
"""Of a message's tag, those that number its chunk."""
MOST_CHUNKS: Final = 1 << CHUNK_BITS


@final
@dataclass(frozen=True)
class Chunk:
    """A stretch of the whole vector that travels and is applied at once."""

    server: int
    index: int
    start: int
    stop: int


def server_part(num_values: int, num_servers: int, server: int) -> slice:
    """Give a server its equal part of the vector, or of a table's rows."""
    return slice(num_values * server // num_servers, num_values * (server + 1) // num_servers)


def chunks_of(part: slice, server: int, values_per_chunk: int) -> list[Chunk]:
    """Cut a server's part into chunks; an empty part is one empty chunk, so that it can reply."""
    length = max(1, values_per_chunk)
    starts = range(part.start, part.stop, length) or [part.start]
    if len(starts) > MOST_CHUNKS:
        reason = f"cuts a server's part into {len(starts):,}; the limit is {MOST_CHUNKS:,}"
        raise SpecError([Problem("strategy.chunk_bytes", f"{length} values", reason)])
    return [
        Chunk(server, index, start, min(start + length, part.stop))
        for index, start in enumerate(starts)
    ]


def stops_of(rows: Tensor, num_rows: int, num_servers: int) -> list[int]:
    """Say where, among ascending row numbers, those of each server's part end."""
    if num_servers == 1:
        return [rows.numel()]
    import torch

    ends = [server_part(num_rows, num_servers, each).stop for each in range(num_servers)]
    return [int(stop) for stop in torch.searchsorted(rows, torch.tensor(ends))]
