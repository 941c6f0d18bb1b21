"""A log that cannot be flooded: what is said over and over is said a few times, then counted."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Final, final

_NUM_AT_ONCE: Final = 10
_EVERY_S: Final = 10.0


@final
class Complaints:
    """Warns of the first few at once; of those after, of one in ten seconds, with their number."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._num_said = 0
        self._num_unsaid = 0
        self._next_s = 0.0

    def add(self, text: str) -> None:
        now_s = monotonic()
        if self._num_said >= _NUM_AT_ONCE and now_s < self._next_s:
            self._num_unsaid += 1
            return
        self._num_said += 1
        self._next_s = now_s + _EVERY_S
        if self._num_unsaid:
            text = f"{text} ({self._num_unsaid} more like it since the last warning)"
        self._log.warning("%s", text)
        self._num_unsaid = 0
