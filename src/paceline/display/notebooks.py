"""Progress in a notebook: one line below the cell that is written over and over."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final, TextIO, final

from paceline.comparing.audience import Audience
from paceline.comparing.contest import ContestStanding
from paceline.display.contests import prepared, title_of, with_alerts
from paceline.display.live import alerting, headline
from paceline.display.live import title_of as title_of_run
from paceline.engine.progress import RunView
from paceline.spec import RunSpec

# Each line is a message to the browser.
_EVERY_S: Final = 0.25


def is_notebook() -> bool:
    """Whether this is the kernel of a notebook: its shell has one, that of a terminal has not."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


@final
class UpdatingLine:
    """A line that is written again in its own place; what is said besides stands above it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._width = 0
        self._next_s = 0.0

    def show(self, text: str) -> None:
        """Write the line, unless it was written a moment ago."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _EVERY_S
            self._write(text, "")

    def say(self, *lines: str) -> None:
        """Write lines that stay."""
        for line in lines:
            self._write(line, "\n")
            self._width = 0

    def end(self) -> None:
        """Leave no line behind: what came of it is said by its result."""
        self._write("", "\r")

    def _write(self, text: str, end: str) -> None:
        # Spaces, since not every notebook knows the sequence that clears a line.
        self._stream.write(f"\r{text.ljust(self._width)}{end}")
        self._stream.flush()
        self._width = len(text)


@contextlib.contextmanager
def watching(spec: RunSpec, stream: TextIO | None = None) -> Iterator[Callable[[RunView], None]]:
    """Give a function to call with each view of the run."""
    title = title_of_run(spec)
    with _line(stream) as line:
        yield alerting(_warning(line), lambda view: line.show(f"{title} · {headline(view)}"))


@contextlib.contextmanager
def following(stream: TextIO | None = None) -> Iterator[Audience]:
    """Give whom a comparison tells how it stands."""
    with _line(stream) as line:

        def show(standing: ContestStanding) -> None:
            line.show(f"{title_of(standing)} · {headline(standing.view)}")

        yield Audience(
            prepare=lambda *told: line.show(prepared(*told)),
            say=lambda sentences: line.say(*sentences),
            watch=with_alerts(_warning(line), show),
        )


@contextlib.contextmanager
def _line(stream: TextIO | None) -> Iterator[UpdatingLine]:
    line = UpdatingLine(stream)
    try:
        yield line
    finally:
        line.end()


def _warning(line: UpdatingLine) -> Callable[[str], None]:
    return lambda text: line.say(f"warning: {text}")
