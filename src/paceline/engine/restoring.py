"""Where a seat finds the state that it goes on from: in the run's folder, or over its line."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

from paceline.clusters.base import Berth
from paceline.comm import words
from paceline.comm.keepsakes import Copy
from paceline.errors import StoreError
from paceline.store.checkpoints import folder_of, seat_state, snapshot_of
from paceline.store.runs import RunDir
from paceline.store.states import read_state
from paceline.training.state import Value

# How many portions are asked for before the first has come.
_ASKED_AHEAD: Final = 8


@final
class States:
    """The states of the checkpoint that this seat's run goes on from."""

    def __init__(self, berth: Berth) -> None:
        self._line = berth.line
        self._folder = berth.ticket.orders.folder
        self._resumed = berth.ticket.orders.resumed

    def of(self, seat: str) -> dict[str, Value]:
        """Read the state that a seat had."""
        assert self._resumed is not None, "this run goes on from nothing"
        if self._folder is not None:
            folder = folder_of(RunDir(Path(self._folder)), self._resumed.progress)
            return read_state(seat_state(folder, seat))
        return self._fetched("state", seat)

    def snapshot_of(self, seat: str) -> dict[str, Value] | None:
        """Read the newest state that a server kept by itself; None if it kept none."""
        if self._folder is not None:
            path = snapshot_of(RunDir(Path(self._folder)), seat)
            return read_state(path) if path.exists() else None
        return self._fetched("snapshot", seat) or None

    def _fetched(self, what: Copy, seat: str) -> dict[str, Value]:
        with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
            path = Path(folder, "state")
            with path.open("xb") as file:
                for data in self._portions(what, seat):
                    file.write(data)
            return read_state(path) if path.stat().st_size else {}

    def _portions(self, what: Copy, seat: str) -> Iterator[bytes]:
        """Ask for portion after portion, some ahead; the first empty one is the end."""
        asked, size = 0, 1 << 16
        for _ in range(_ASKED_AHEAD):
            self._line.send(words.Fetch(what=what, seat=seat, start=asked * size))
            asked += 1
        num_taken, is_over = 0, False
        while num_taken < asked:
            portion = self._line.wait(words.Portion)
            if portion.start != num_taken * size:
                raise StoreError(f"a portion begins at byte {portion.start:,}")
            num_taken += 1
            data = base64.b64decode(portion.data, validate=True)
            is_over = is_over or len(data) < size
            if not is_over:
                self._line.send(words.Fetch(what=what, seat=seat, start=asked * size))
                asked += 1
            yield data
