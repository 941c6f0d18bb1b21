"""A line between hosts: over TCP, encrypted, with keys made for the run."""

from __future__ import annotations

import contextlib
import errno
import select
from collections.abc import Iterator
from typing import Final, final

from paceline.comm import round_trips
from paceline.comm.line import MOST_BYTES, Garbled, Line, LineClosed
from paceline.comm.offset import Gauge, Offset
from paceline.comm.secure_socket import BadFrame, Frame, FrameKind, SecureSocket, is_ready
from paceline.comm.spelling import BadWord, decode, encode
from paceline.comm.vocabularies import Vocabulary
from paceline.comm.words import Word
from paceline.system.waiting import Deadline

_PATIENCE_S: Final = 60.0
"""How long somebody who reads nothing is waited for."""


@final
class TcpLine(Line):
    """One end of a connection whose both ends know each other already.

    `dial` and `Switchboard` make them, and call `hang_up_if_cut_off` every second from a thread of
    theirs: so that a host that is gone without a word is noticed whoever is receiving.
    """

    look_every_s = 1.0

    def __init__(self, end: SecureSocket, hears: Vocabulary, gauge: Gauge | None = None) -> None:
        """`gauge` is what reads the driver's clock where this end is not the driver's."""
        self._gauge = gauge
        if gauge is not None:
            self.clock = gauge.there_s
        self._end = end
        self._hears = hears
        # Why nothing more can be said, or heard. One who hung up may have said something before.
        self._said_last: str | None = None
        self._heard_last: str | None = None

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, word: Word) -> None:
        self._say(FrameKind.WORD, self._text(word))

    def offer(self, word: Word) -> bool:
        text = self._text(word)
        with self._speaking():
            if not self._end.has_room():
                return False
            self._end.put(FrameKind.WORD, text)
            return True

    def receive(self, timeout_s: float | None = None) -> Word | None:
        deadline = Deadline(timeout_s)
        while (frame := self._take()) is None:
            left_s = deadline.left_s
            if not left_s or not is_ready(self._end, select.POLLIN, left_s):
                return None
        try:
            return decode(frame.content, self._hears)
        except BadWord as error:
            raise Garbled(f"it said what is never said there: {error}") from error

    def finish(self) -> None:
        with contextlib.suppress(LineClosed):  # it is gone already
            self._say(FrameKind.LAST, b"")
        self._said_last = self._said_last or "nothing more was to be said"

    def close(self) -> None:
        self._said_last = self._heard_last = "it was closed here"
        self._end.close()

    def forsake(self) -> None:
        """Let go of it in a forked process, without a word: the line stays its parent's."""
        self._end.forsake()

    def own_address(self) -> str:
        """Give the address of this host that leads to the other."""
        return self._end.own_address()

    def hang_up_if_cut_off(self) -> bool:
        """Hear the end if the other host is gone; returns whether there is no more to look at."""
        return self._end.hang_up_if_cut_off()

    def ask_for_clock(self) -> None:
        """Ask the driver for its clock; the answer is taken note of by who receives next."""
        assert self._gauge is not None, "this is the driver's end"
        with self._speaking():
            if self._end.has_room():
                round_trips.ask(self._end, self._gauge)

    @property
    def offset(self) -> Offset:
        """How far the clock of this machine is ahead of the driver's."""
        return Offset(0.0, 0.0) if self._gauge is None else self._gauge.offset

    @staticmethod
    def _text(word: Word) -> bytes:
        text = encode(word)
        if len(text) > MOST_BYTES:
            told = f"a message of {len(text):,} bytes, more than the {MOST_BYTES:,} that are read"
            raise OSError(errno.EMSGSIZE, told)
        return text

    def _say(self, kind: FrameKind, content: bytes) -> None:
        deadline = Deadline(_PATIENCE_S)
        with self._speaking():
            while not self._end.has_room():
                self._await_room(deadline)
            sent = self._end.put(kind, content)
            while not sent:
                self._await_room(deadline)
                sent = self._end.flush()

    def _take(self) -> Frame | None:
        """Give a frame that holds a word, if one has come."""
        if self._heard_last is not None:
            raise LineClosed(self._heard_last)
        try:
            while (frame := self._end.take()) is not None and self._is_about_clocks(frame):
                pass
        except BadFrame as error:
            self._said_last = self._heard_last = str(error)
            raise Garbled(f"it sent what is never sent there: {error}") from error
        except OSError as error:
            self._said_last = self._heard_last = str(error)
            raise LineClosed(str(error)) from error
        return None if frame is None else self._checked(frame)

    def _is_about_clocks(self, frame: Frame) -> bool:
        """Ask, or be answered: whoever receives does not hear of it."""
        if frame.kind is FrameKind.ASK and self._gauge is None:
            with contextlib.suppress(OSError):  # who has hung up meanwhile may have had more to say
                round_trips.answer(self._end, frame.content)
        elif frame.kind is FrameKind.CLOCK and self._gauge is not None:
            round_trips.learn(self._gauge, frame.content)
        else:
            return False
        return True

    def _checked(self, frame: Frame) -> Frame:
        if frame.kind is FrameKind.LAST:
            self._heard_last = "it says nothing more"
            raise LineClosed(self._heard_last)
        if frame.kind is not FrameKind.WORD:
            raise Garbled(f"it sent a frame of kind {frame.kind.name} after it was let in")
        return frame

    @contextlib.contextmanager
    def _speaking(self) -> Iterator[None]:
        """Say something if that is possible; remember when it no longer is."""
        if self._said_last is not None:
            raise LineClosed(self._said_last)
        try:
            yield
        except OSError as error:
            self._said_last = str(error)
            raise LineClosed(str(error)) from error

    def _await_room(self, deadline: Deadline) -> None:
        left_s = deadline.left_s
        if not left_s or not is_ready(self._end, select.POLLOUT, left_s):
            raise TimeoutError(f"it has read nothing for {_PATIENCE_S:g} s")
