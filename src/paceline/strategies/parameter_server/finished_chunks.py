"""Which chunks may leave: those whose gradients back-propagation has all finished."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, final

from paceline.strategies.parameter_server.cuts import Chunk

if TYPE_CHECKING:
    from torch import nn

    from paceline.training.replica import Replica


@final
class FinishedChunks:
    """Counts, for each chunk of a step, the parameters in it whose gradients are not finished."""

    def __init__(self, replica: Replica, chunks: Iterable[Chunk]) -> None:
        self.chunks_of: dict[nn.Parameter, list[Chunk]] = {each: [] for each in replica.places}
        """The chunks that each parameter lies in."""
        ordered = sorted(chunks, key=lambda chunk: chunk.start)
        # Also of a chunk without values: a server that has no other waits for it.
        self._sizes: dict[Chunk, int] = dict.fromkeys(ordered, 0)
        first = 0
        for parameter, place in replica.places.items():
            while first < len(ordered) and ordered[first].stop <= place.start:
                first += 1
            for chunk in ordered[first:]:
                if chunk.start >= place.stop:
                    break
                self.chunks_of[parameter].append(chunk)
                self._sizes[chunk] += 1
        self.begin()

    def begin(self) -> None:
        """A new step: no gradient is finished."""
        self._missing = dict(self._sizes)

    def note(self, parameter: nn.Parameter) -> list[Chunk]:
        """A gradient is finished; returns the chunks that may leave now."""
        leaving = []
        for chunk in self.chunks_of[parameter]:
            left = self._missing.get(chunk)
            if left is None:
                raise RuntimeError(
                    "a gradient was finished twice in one step; with strategy.overlap it is sent "
                    "as soon as it is finished, so a loss may be back-propagated only once: use "
                    "strategy.overlap=false"
                )
            if left == 1:
                del self._missing[chunk]
                leaving.append(chunk)
            else:
                self._missing[chunk] = left - 1
        return leaving

    def rest(self) -> list[Chunk]:
        """Chunks that have not left: a gradient that was not needed is never finished."""
        rest, self._missing = list(self._missing), {}
        return rest
