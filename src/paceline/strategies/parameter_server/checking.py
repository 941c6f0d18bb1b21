"""Whether gradients are finite, looked at chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from paceline.strategies.parameter_server.cuts import Chunk
from paceline.training.finite import flaw_of, squares_of

if TYPE_CHECKING:
    import numpy.typing as npt


@final
class ChunkCheck:
    """Adds up over a step what `flaw_in` computes at once, so that both refuse the same."""

    def __init__(self, gradients: npt.NDArray[Any], chunks: Sequence[Chunk]) -> None:
        self._gradients = gradients
        self._values = {each: gradients[each.start : each.stop] for each in chunks}
        self._most = float(np.finfo(gradients.dtype).max)
        self.refused: list[Chunk] = []
        """Chunks of this step that are not finite."""
        self._squares = 0.0

    def look_at(self, chunk: Chunk) -> bool:
        """Look at a chunk that is finished; returns whether it is finite."""
        squares = squares_of(self._values[chunk])
        is_finite = squares <= self._most
        if not is_finite:
            self.refused.append(chunk)
        self._squares += squares
        return is_finite

    def end(self) -> tuple[str | None, list[Chunk]]:
        """All chunks were looked at: what is wrong, if anything is, and with which of them."""
        refused, self.refused = self.refused, []
        squares, self._squares = self._squares, 0.0
        is_finite = squares <= self._most  # false where it is no number
        return None if is_finite else flaw_of(self._gradients), refused
