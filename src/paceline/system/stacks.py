"""Where a worker is in its code, read from what `faulthandler` wrote of it."""

from __future__ import annotations

import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_THREAD: Final = re.compile(r"^(?:Current thread|Thread) .*$", re.MULTILINE)
_OURS: Final = f"{Path(__file__).parent.parent}/"
_STANDARD: Final = (f"{sysconfig.get_path('stdlib')}/", "<frozen ")
# The innermost of these tells the phase: a place in our files, or one function there.
_PHASES: Final = {
    "comm/seat_line.py:roster": "rest",
    "comm/seat_line.py:wait": "rest",
    "engine/evaluation.py": "evaluate",
    "compute/": "compute",
    "strategies/": "exchange",
    "comm/allreduce/": "exchange",
    "engine/feed.py": "load",
    "engine/session.py": "exchange",
    "engine/worker.py:_train_to_its_end": "train",
    "engine/worker.py:_save": "save",
    "engine/graph.py:draw_graph": "save",
    "engine/worker.py:_attend": "rest",
    "engine/worker.py:run": "rest",
    "engine/worker.py:__init__": "prepare",
    "engine/worker.py:main": "prepare",
}
# Phases in which a worker waits for others.
_WAITING: Final = ("exchange", "rest")
_MOST_LINES: Final = 3


@final
@dataclass(frozen=True)
class _Frame:
    file: str
    line: int
    function: str

    @property
    def phase(self) -> str | None:
        """The phase of a step in which one of our own functions is called."""
        if not self.file.startswith(_OURS):
            return None
        place = f"{self.file.removeprefix(_OURS)}:{self.function}"
        return next((phase for start, phase in _PHASES.items() if place.startswith(start)), None)

    @property
    def is_library(self) -> bool:
        return "/site-packages/" in self.file or self.file.startswith(_STANDARD)

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line} in {self.function}"


@final
@dataclass(frozen=True, kw_only=True)
class CodePlace:
    """What a worker does, and the innermost lines of code that it does it with."""

    phase: str | None = None
    """`prepare`, `load`, `compute`, `exchange`, `train` (a loop's own code), `evaluate`, `save` or
    `rest`; None: unknown."""
    lines: tuple[str, ...] = ()
    """The innermost first; those of the workload rather than of the libraries it calls."""

    @property
    def waits(self) -> bool:
        """Whether it may be waiting for others, who are the cause then."""
        return self.phase in _WAITING


def place_in(text: str) -> CodePlace:
    """Find where a worker is in a text that holds a dump of its threads, if it does."""
    for thread in reversed(_THREAD.split(text)):
        frames = [_Frame(file, int(line), name) for file, line, name in _FRAME.findall(thread)]
        ours = next((at for at, each in enumerate(frames) if each.phase is not None), None)
        if ours is not None:
            own = [each for each in frames[:ours] if not each.is_library]
            lines = own or frames
            return CodePlace(phase=frames[ours].phase, lines=tuple(map(str, lines[:_MOST_LINES])))
    return CodePlace()
