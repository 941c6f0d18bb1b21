"""Being asked to stop, heard between two steps of a loop and not in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final, Self, final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Handler = Callable[[int, FrameType | None], object]


@final
class StopRequests:
    """Counts interrupts for as long as it is entered; nothing is interrupted by them.

    An exception that may rise anywhere loses what was being done: a message that was taken off
    its line, say, or the whole run where it rises outside of what catches it. Signals keep the
    handlers they have: only a `KeyboardInterrupt` that rises in one is counted in its place.
    """

    def __init__(self) -> None:
        self._earlier: dict[int, Handler] = {}
        self._asked: list[int] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other is interrupted
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):  # neither ignored nor left to the kernel
                    self._earlier[number] = handler
                    signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)

    def heard(self) -> bool:
        """Whether somebody asked to stop; every request is told of once."""
        if not self._asked:
            return False
        self._asked.pop()
        return True

    def _take(self, number: int, frame: FrameType | None) -> None:
        try:
            self._earlier[number](number, frame)
        except KeyboardInterrupt:
            self._asked.append(number)
