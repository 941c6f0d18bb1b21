"""A seat's part in a checkpoint: copy the state while all rest, write the copy while they go on."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from paceline.comm import words
from paceline.comm.keepsakes import Copy
from paceline.comm.seat_line import SeatLine
from paceline.errors import Aborted, StateError, StoreError
from paceline.sinks.base import Sink
from paceline.store.states import WrittenFile, save_state
from paceline.training.copies import Copier
from paceline.training.state import State, Stateful

# Training has the processor first: Linux keeps a priority for each thread.
_NICE: Final = 10
# How long a seat that leaves waits for its writer: less than the driver then waits for it.
_CLOSING_S: Final = 4.0
_MOST_SAID: Final = 500


@final
class Upkeep:
    """Keeps a seat's state when the driver asks. Used by the thread that changes the state."""

    def __init__(self, line: SeatLine, sink: Sink) -> None:
        self._line = line
        self._sink = sink
        self._copier = Copier()
        self._writer: threading.Thread | None = None

    def prepare(self, state: State) -> None:
        """Have memory for a copy ready before the first one is due, in another thread."""
        self._start(self._copier.prepare, state)

    def keep(self, what: Copy, state: State) -> None:
        """Copy a state, say so, and write the copy in another thread."""
        if self._writer is not None:
            self._writer.join()  # its copy is in the memory that this one needs
        copy = self._copier.copy(state)
        self._line.send(words.Copied(what))
        self._start(self._write, what, copy)

    def keep_unless_busy(self, what: Copy, state: State) -> bool:
        """The same, unless the copy before is still being written; returns whether it is kept."""
        if self._writer is not None and self._writer.is_alive():
            return False
        self.keep(what, state)
        return True

    def _start(self, act: Callable[..., None], *given: object) -> None:
        """Do something in a thread that takes second place to training."""

        def aside() -> None:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
            act(*given)

        self._writer = threading.Thread(target=aside, name="keep", daemon=True)
        self._writer.start()

    def close(self) -> None:
        """Give the writer time to end. Idempotent."""
        if self._writer is not None:
            self._writer.join(_CLOSING_S)

    def _write(self, what: Copy, copy: State) -> None:
        with contextlib.suppress(Aborted):
            try:
                written = self._put(what, copy)
            except (StoreError, StateError, OSError) as error:
                self._line.send(words.Kept(what=what, problem=str(error)[:_MOST_SAID] or "failed"))
                return
            self._line.send(
                words.Kept(what=what, num_bytes=written.num_bytes, digest=written.digest)
            )

    def _put(self, what: Copy, copy: State) -> WrittenFile:
        made: list[WrittenFile] = []

        def write(path: Path) -> None:
            made.append(save_state(path, copy))

        self._sink.put(what, write)
        return made[-1]


def keep_on_request(line: SeatLine, upkeep: Upkeep, owner: Stateful) -> None:
    """Have this thread keep a server's state when asked: while it waits, or as soon as it can."""

    def act(word: words.Keep) -> bool:
        try:
            state = owner.state()
        except StateError:  # a push is under way
            return False
        upkeep.keep(word.what, state)
        return True

    line.heed(words.Keep, act)
