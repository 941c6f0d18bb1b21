"""The seam that sinks are written behind: where that goes what a seat keeps of a run.

A seat says what it keeps, never under which name or where: it may not see the run's folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from paceline.comm.keepsakes import KeptFile, StreamName


class Sink(ABC):
    """One seat's own. Any thread may append."""

    @abstractmethod
    def append(self, what: StreamName, data: bytes) -> None:
        """Add to a stream, in order; does not wait for anybody to read it.

        The stream is there from the first call on, even if that has no data.
        """

    @abstractmethod
    def put(self, what: KeptFile, write: Callable[[Path], object]) -> None:
        """Keep a file that `write` makes at the path it is given: whole, or not at all."""

    @abstractmethod
    def check(self) -> None:
        """Raise `StoreError` if what is appended would be lost: its folder was removed."""

    @abstractmethod
    def close(self) -> None:
        """Deliver what is left, within seconds, and let go of it. Idempotent."""
