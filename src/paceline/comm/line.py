"""The seam that lines are written behind: words between the driver and another process.

A line carries the few words that steer a run and a status a few times a second; parameters and
gradients never pass here. When either end dies the other hears it, so nobody waits for a process
that is gone.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from paceline.comm.words import Word

MOST_BYTES: Final = 1 << 17
"""The longest word, as it travels."""


class LineClosed(Exception):
    """The process at the other end is gone."""


class Garbled(LineClosed):
    """It is there, and says what nobody says: there is no use in listening any longer."""


class Line(ABC):
    """One end of a line. Any thread may send; one at a time receives."""

    clock: Callable[[], float] = time.monotonic
    """Reads the driver's monotonic clock, of which all moments in words are. On one machine there
    is but one.
    """

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor that becomes readable when something has come: call `receive` until it
        gives None then, for several words may have come at once.
        """

    @abstractmethod
    def send(self, word: Word) -> None:
        """Send a word, waiting for room if there is none. Raises `LineClosed`."""

    @abstractmethod
    def offer(self, word: Word) -> bool:
        """Send a word unless there is no room, without waiting; returns whether it was sent.

        A reader that does not read must not hold us up.
        """

    @abstractmethod
    def receive(self, timeout_s: float | None = None) -> Word | None:
        """Wait for the next word; None when the time is up. Raises `LineClosed` at the end."""

    def receive_handed(self) -> tuple[Word | None, list[int]]:
        """Take a word that has come, with descriptors if it hands some over; does not wait."""
        return self.receive(timeout_s=0), []

    @abstractmethod
    def finish(self) -> None:
        """Say nothing more, so that the other end hears of it; it may still be heard."""

    look_every_s: float | None = None
    """How often to call `hang_up_if_cut_off`, unless a thread does; None: never."""

    def hang_up_if_cut_off(self) -> bool:
        """Hear the end if the other host is gone without a word; returns whether it is."""
        return False

    def forsake(self) -> None:
        """Let go of it in a forked process, without a word: the line stays its parent's."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let go of it. Idempotent."""
