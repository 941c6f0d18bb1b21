"""A line between processes of one host: a socket pair that keeps words apart."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import socket
from collections.abc import Sequence
from typing import Final, final

from paceline.comm.keeper_words import Ends
from paceline.comm.line import MOST_BYTES, Garbled, Line, LineClosed
from paceline.comm.spelling import BadWord, decode, encode
from paceline.comm.vocabularies import Vocabulary
from paceline.comm.words import Word

# The kernel takes no more than 253 descriptors with one message.
_MOST_HANDED: Final = 200


@final
class PairLine(Line):
    """One end of a pair. Who holds the other end has its file, so no stranger can."""

    def __init__(self, end: socket.socket, hears: Vocabulary) -> None:
        self._socket = end
        self._hears = hears

    @staticmethod
    def pair() -> tuple[socket.socket, socket.socket]:
        """Make both ends."""
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, word: Word) -> None:
        self._send(word, flags=0)

    def offer(self, word: Word) -> bool:
        try:
            self._send(word, flags=socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        return True

    def hand_over(self, word: Word, ends: Sequence[socket.socket]) -> None:
        """Send a word, and before it sockets; ours stay open."""
        handed = [each.fileno() for each in ends]
        for first in range(0, len(handed), _MOST_HANDED):
            self._send(Ends(len(handed)), 0, handed[first : first + _MOST_HANDED])
        self._send(word, 0)

    def _send(self, word: Word, flags: int, handed: Sequence[int] = ()) -> None:
        text = encode(word)
        if len(text) > MOST_BYTES:
            told = f"a message of {len(text):,} bytes, more than the {MOST_BYTES:,} that are read"
            raise OSError(errno.EMSGSIZE, told)
        try:
            if handed:
                socket.send_fds(self._socket, [text], handed, flags)
            else:
                self._socket.send(text, flags)
        except BlockingIOError:
            raise
        except OSError as error:
            raise LineClosed(str(error)) from error

    def receive(self, timeout_s: float | None = None) -> Word | None:
        flags = 0
        if timeout_s is not None:
            if not self._is_readable(timeout_s):
                return None
            flags = socket.MSG_DONTWAIT  # another thread may have been quicker
        try:
            text = self._receive(flags)
        except BlockingIOError:
            return None
        except OSError as error:
            raise LineClosed(str(error)) from error
        return self._read(text)

    def _receive(self, flags: int) -> bytes:
        try:
            return self._socket.recv(MOST_BYTES, flags)
        except ConnectionResetError:
            # It closed with words of ours unread, which is told once and first; its own last
            # words come after.
            return self._socket.recv(MOST_BYTES, flags)

    def _read(self, text: bytes) -> Word:
        if not text:
            raise LineClosed("end of file")
        try:
            return decode(text, self._hears)
        except BadWord as error:
            raise Garbled(f"it said what is never said there: {error}") from error

    def _is_readable(self, timeout_s: float) -> bool:
        poller = select.poll()  # select() itself cannot look at descriptors beyond 1023
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(math.ceil(timeout_s * 1000)))

    def take_over(self) -> tuple[Word, list[int]]:
        """Wait for what is handed over; returns the word and its sockets' descriptors."""
        taken: list[int] = []
        word, handed = self._take_over()
        while isinstance(word, Ends):
            if not handed:
                raise LineClosed("no more files can be opened")
            taken += handed
            word, handed = self._take_over()
        for descriptor in taken:
            os.set_inheritable(descriptor, False)  # recv_fds of Python 3.11 heeds no flag for it
        return word, taken

    def receive_handed(self) -> tuple[Word | None, list[int]]:
        return self.take_over() if self._is_readable(0) else (None, [])

    def _take_over(self) -> tuple[Word, list[int]]:
        try:
            text, handed, *_ = socket.recv_fds(self._socket, MOST_BYTES, _MOST_HANDED)
        except OSError as error:
            raise LineClosed(str(error)) from error
        return self._read(text), handed

    def finish(self) -> None:
        with contextlib.suppress(OSError):  # it is gone already
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()
