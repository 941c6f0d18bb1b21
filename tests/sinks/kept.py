"""A sink that a test can look into."""

from collections.abc import Callable
from pathlib import Path
from typing import final

from paceline.comm.keepsakes import KeptFile, StreamName
from paceline.sinks.base import Sink


@final
class Kept(Sink):
    """Keeps streams where a test can look."""

    def __init__(self) -> None:
        self.streams: dict[str, bytes] = {}

    def append(self, what: StreamName, data: bytes) -> None:
        self.streams[what] = self.streams.get(what, b"") + data

    def put(self, what: KeptFile, write: Callable[[Path], object]) -> None:
        raise AssertionError(what)

    def check(self) -> None: ...

    def close(self) -> None: ...
