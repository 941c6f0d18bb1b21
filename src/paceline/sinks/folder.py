"""The run's folder as a sink, for whoever sees it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from paceline.comm.keepsakes import KeptFile, StreamName
from paceline.comm.roster import Seat
from paceline.sinks.base import Sink
from paceline.store.checkpoints import seat_state
from paceline.store.runs import RunDir
from paceline.store.whole_files import named_beside

# What must outlive the machine's loss of power.
_LASTING: Final = ("model", "state")


@final
class FolderSink(Sink):
    """Appends to files, each with one call of the kernel: who is killed loses nothing appended."""

    def __init__(self, run: RunDir, seat: Seat) -> None:
        self._run = run
        self._seat = seat
        self._open: dict[StreamName, int] = {}

    def append(self, what: StreamName, data: bytes) -> None:
        file = self._open.get(what)
        if file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            file = self._open[what] = os.open(self._stream(what), flags, 0o666)
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]

    def put(self, what: KeptFile, write: Callable[[Path], object]) -> None:
        path = self.path_of(what)
        path.parent.mkdir(exist_ok=True, parents=True)
        named_beside(path, write, lasting=what in _LASTING)

    def check(self) -> None:
        self._run.check_there()

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def _stream(self, what: StreamName) -> Path:
        name = self._seat.name
        match what:
            case "rows":  # a monitor's are about its node
                return self._run.seat_records(
                    self._seat.node if self._seat.role == "monitor" else name
                )
            case "losses":
                return self._run.seat_losses(name)
            case "log":
                return self._run.seat_log(name)

    def path_of(self, what: KeptFile) -> Path:
        """Say where a file is kept."""
        match what:
            case "model":
                return self._run.model
            case "graph":
                return self._run.seat_records("graph")
            case "trace":
                return self._run.seat_trace(self._seat.name)
            case "operators":
                return self._run.seat_operators(self._seat.name)
            case "state":
                return seat_state(self._run.arriving, self._seat.name)
            case "snapshot":
                return seat_state(self._run.snapshots, self._seat.name)
