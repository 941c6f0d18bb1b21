"""What a script prints, while it runs: worker 0's output, passed on with each view of the run."""

from __future__ import annotations

import codecs
import dataclasses
from collections.abc import Callable
from typing import Final, final

from paceline.engine.progress import RunView
from paceline.seats import seat_name
from paceline.store.runs import RunDir

# A script that prints more than this between two looks is shown the rest of it later.
_AT_ONCE: Final = 1 << 18


@final
class Printed:
    """Reads worker 0's log as it grows, and gives it to whoever watches."""

    def __init__(self, run_dir: RunDir, watch: Callable[[RunView], None]) -> None:
        self._path = run_dir.seat_log(seat_name("worker", 0))
        self._watch = watch
        self._start = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def show(self, view: RunView) -> None:
        """Pass a view on, with what was printed since the last."""
        self._watch(dataclasses.replace(view, printed=self._new_text()))

    def show_rest(self, view: RunView) -> None:
        """Pass on what is left when all is over."""
        while text := self._new_text():
            self._watch(dataclasses.replace(view, printed=text))

    def _new_text(self) -> str:
        try:
            with self._path.open("rb") as file:
                file.seek(self._start)
                data = file.read(_AT_ONCE)
        except OSError:  # not there yet
            return ""
        self._start += len(data)
        return self._decoder.decode(data)
