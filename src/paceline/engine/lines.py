"""The lines to all seats of a run, as their driver holds them; one that closes is forgotten."""

from __future__ import annotations

import contextlib
import selectors
from collections.abc import Iterator, Mapping
from typing import Final, final

from paceline.comm.line import Garbled, Line, LineClosed
from paceline.comm.words import Failed, Word

# How many words of one seat are heard before it is the next one's turn.
_MOST_AT_ONCE: Final = 64


@final
class Lines:
    """Who can be heard, and told something, by name."""

    def __init__(self, lines: Mapping[str, Line]) -> None:
        self._lines: dict[str, Line] = {}
        self._selector = selectors.DefaultSelector()
        # A line may have read ahead: its descriptor is silent then, though words are left.
        self._unheard: dict[str, None] = {}
        self._has_said_last = False
        self._deaf: set[str] = set()
        for name, line in lines.items():
            self._add(name, line)

    def hear(self, timeout_s: float) -> Iterator[tuple[str, Word]]:
        """Give what seats say; wait for as long if none says anything."""
        names, self._unheard = self._unheard, {}
        for key, _ in self._selector.select(0 if names else timeout_s):
            names[key.data] = None
        for name in names:
            for _ in range(_MOST_AT_ONCE):
                word = self.receive(name)
                if word is None:
                    break
                yield name, word
            else:
                self._unheard[name] = None

    def receive(self, name: str) -> Word | None:
        """Take one word of a seat, if there is one."""
        if name not in self._lines:
            return None
        try:
            return self._lines[name].receive(timeout_s=0)
        except Garbled as error:
            self.hang_up(name)
            return Failed(str(error))
        except LineClosed:
            self.hang_up(name)
            return None

    def tell(self, name: str, word: Word) -> None:
        """Say something to a seat, unless it is gone or has heard the last word."""
        if name not in self._lines or name in self._deaf or self._has_said_last:
            return
        with contextlib.suppress(LineClosed):  # its last words are still to be heard
            self._lines[name].send(word)

    def tell_all(self, word: Word) -> None:
        for name in list(self._lines):
            self.tell(name, word)

    def tell_last(self, word: Word) -> None:
        """Say something to all, and nothing to anybody after it; they can still be heard."""
        self.tell_all(word)
        self._has_said_last = True

    def tell_no_more(self, name: str) -> None:
        """Say nothing more to a seat, which may still be heard."""
        self._deaf.add(name)

    def is_open(self, name: str) -> bool:
        """Whether more may be heard of a seat."""
        return name in self._lines

    def replace(self, name: str, line: Line) -> None:
        """Hear and tell a seat's next incarnation; the one before is not heard any more."""
        self.hang_up(name)
        self._deaf.discard(name)
        self._add(name, line)

    def hang_up(self, name: str) -> None:
        line = self._lines.pop(name, None)
        if line is not None:
            self._selector.unregister(line)

    def _add(self, name: str, line: Line) -> None:
        self._lines[name] = line
        self._selector.register(line, selectors.EVENT_READ, name)
