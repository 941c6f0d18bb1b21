"""States for seats that do not see the run's folder: sent by the driver, a portion at a time."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final, final

from paceline.comm.keepsakes import Copy
from paceline.comm.words import Fetch, Portion
from paceline.engine.oddities import Odd
from paceline.reading.untrusted import opened
from paceline.seats import parsed
from paceline.store.checkpoints import folder_of, seat_state, snapshot_of
from paceline.store.runs import RunDir

# Two thirds of the longest word, as a portion travels.
PORTION_BYTES: Final = 1 << 16


@final
class Handouts:
    """Gives seats the states that their run goes on from, and no other file."""

    def __init__(self, run_dir: RunDir, progress: int | None) -> None:
        self._run_dir = run_dir
        self._progress = progress

    def portion(self, wanted: Fetch) -> Portion:
        """Read what a seat asks for; an empty portion is the end. Raises `Odd`."""
        try:
            if wanted.what == "snapshot" and not self._path(wanted.what, wanted.seat).exists():
                return Portion(start=wanted.start, data="")  # it has kept none yet
            with opened(self._path(wanted.what, wanted.seat)) as file:
                file.seek(wanted.start)
                data = file.read(PORTION_BYTES)
        except (OSError, ValueError) as error:
            raise Odd(f"it wants the state of {wanted.seat[:40]!r}: {error}") from error
        return Portion(start=wanted.start, data=base64.b64encode(data).decode())

    def _path(self, what: Copy, seat: str) -> Path:
        parsed(seat)  # raises `ValueError` where that is no seat, but a path perhaps
        if what == "snapshot":
            return snapshot_of(self._run_dir, seat)
        if self._progress is None:
            raise ValueError("this run goes on from nothing")
        return seat_state(folder_of(self._run_dir, self._progress), seat)
