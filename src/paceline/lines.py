"""The lines to all seats of a run, as their driver holds them; one that closes is forgotten."""

from __future__ import annotations

import selectors
from collections.abc import Iterator, Mapping
from typing import Any, final

from paceline.comm.line import Line, LineClosed, Message


@final
class Lines:
    """Who can be heard, and told something, by name."""

    def __init__(self, lines: Mapping[str, Line]) -> None:
        self._lines = dict(lines)
        self._selector = selectors.DefaultSelector()
        for name, line in lines.items():
            self._selector.register(line, selectors.EVENT_READ, name)

    def speaking(self, timeout_s: float) -> Iterator[str]:
        """Name the seats that have something to say; wait for as long if none has."""
        for key, _ in self._selector.select(timeout_s):
            if key.data in self._lines:  # hearing one seat may hang up another
                yield key.data

    def receive(self, name: str) -> Message | None:
        """Take one message of a seat, if there is one."""
        if name not in self._lines:
            return None
        try:
            return self._lines[name].receive(timeout_s=0)
        except LineClosed:
            self.hang_up(name)
            return None

    def tell(self, name: str, kind: str, **fields: Any) -> None:
        """Send a message to a seat, unless it is gone."""
        if name not in self._lines:
            return
        try:
            self._lines[name].send(kind, **fields)
        except LineClosed:
            self.hang_up(name)

    def tell_all(self, kind: str, **fields: Any) -> None:
        for name in list(self._lines):
            self.tell(name, kind, **fields)

    def hang_up(self, name: str) -> None:
        line = self._lines.pop(name, None)
        if line is not None:
            self._selector.unregister(line)
