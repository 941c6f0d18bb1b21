"""Frames over TLS over TCP. Nothing here waits: who wants to wait asks the descriptor."""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import ssl
import struct
import threading
from enum import IntEnum
from typing import Final, NamedTuple, final

from paceline.comm.cut_off import ask_when_idle, is_cut_off
from paceline.comm.line import MOST_BYTES

# The kernel calls a socket writable when a third of this is free: the longest frame must fit there,
# so that one that is begun is also taken whole. Twice as much is what the kernel makes of it.
_ROOM_BYTES: Final = 4 * MOST_BYTES
_HEADER: Final = struct.Struct("!IB")
# Of TLS: a record's kind, its version, and its length.
_RECORD: Final = struct.Struct("!BHH")
_RECORD_KINDS: Final = range(20, 24)
_MOST_RECORD_BYTES: Final = (1 << 14) + 256


class BadFrame(Exception):
    """What came is none of the frames that are sent there."""


class Hung(ConnectionError):
    """The other end has hung up."""


class FrameKind(IntEnum):
    """What a frame holds."""

    TOKEN = 1
    WELCOME = 2
    ASK = 3
    CLOCK = 4
    READY = 5
    WORD = 6
    LAST = 7


def is_ready(end: SecureSocket, event: int, timeout_s: float) -> bool:
    """Wait until an end can be read, or written; False when the time is up."""
    if end.fileno() < 0:
        raise Hung("it was closed here")
    poller = select.poll()  # select() itself cannot look at descriptors beyond 1023
    poller.register(end, event)
    return bool(poller.poll(None if timeout_s == math.inf else math.ceil(timeout_s * 1000)))


class Frame(NamedTuple):
    """Its kind, and as many bytes as its header said."""

    kind: FrameKind
    content: bytes


@final
class SecureSocket:
    """One end of a TCP connection. Any thread may call.

    `OSError` is all that the network and TLS raise; `BadFrame` is the other end's own fault.
    Records of TLS are taken from the kernel one at a time, and each holds one frame or a part of
    one: so the descriptor stays readable for as long as something has come that nobody took.
    """

    def __init__(self, end: socket.socket, context: ssl.SSLContext, *, answers: bool) -> None:
        """`answers`: this end was called."""
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM_BYTES)
        ask_when_idle(end)
        self._socket = end
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=answers)
        self._lock = threading.Lock()  # OpenSSL has none
        self._record = bytearray()
        """Of a record that has not come whole."""
        self._plain = bytearray()
        """Of a frame that has not come whole."""
        self._unsent = b""
        self._is_safe = False
        self._is_closed = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def handshake(self) -> bool:
        """Go on with agreeing on keys; returns whether that is done."""
        with self._lock:
            while not self._is_safe:
                try:
                    self._tls.do_handshake()
                    self._is_safe = True
                except ssl.SSLWantReadError:
                    self._send_off()
                    if not self._bring():
                        return False
                except ssl.SSLError:
                    self._send_off()  # what is wrong, to the other end
                    raise
            self._send_off()
            return True

    def take(self, most_bytes: int = MOST_BYTES) -> Frame | None:
        """Give the next frame, if it has come whole."""
        with self._lock:
            while (frame := self._cut(most_bytes)) is None:
                if not self._bring():
                    return None
                self._decrypt()
            return frame

    def put(self, kind: FrameKind, content: bytes = b"") -> bool:
        """Send a frame; returns whether the kernel took all of it, else `flush` goes on with it."""
        assert len(content) <= MOST_BYTES
        with self._lock:
            left = memoryview(_HEADER.pack(len(content), kind) + content)
            while left:
                left = left[self._tls.write(left) :]
            return self._send_off()

    def flush(self) -> bool:
        """Send what is left of frames; returns whether nothing is."""
        with self._lock:
            return self._send_off()

    def has_room(self) -> bool:
        """Whether the kernel would take a whole frame now."""
        with self._lock:
            if not self._send_off():
                return False
            return is_ready(self, select.POLLOUT, 0)

    def hang_up_if_cut_off(self) -> bool:
        """Have everybody who waits hear the end if the other host is gone; whether we are done."""
        with self._lock:
            if self._is_closed:
                return True
            with contextlib.suppress(OSError):  # the kernel has noticed too
                self._send_off()
                if is_cut_off(self._socket):
                    self._socket.shutdown(socket.SHUT_RDWR)
                    return True
            return False

    def close(self) -> None:
        """Hang up; what was sent before still arrives. Idempotent."""
        with self._lock, self._socket:
            if self._is_closed:
                return
            self._is_closed = True
            with contextlib.suppress(OSError):  # it wants the other's farewell, or is gone already
                self._tls.unwrap()
            with contextlib.suppress(OSError):
                self._send_off()
                self._socket.shutdown(socket.SHUT_WR)
                while self._socket.recv(1 << 16):  # what lies unread has the kernel cut us short
                    pass

    def forsake(self) -> None:
        """Close the descriptor of a forked process, and say nothing."""
        self._is_closed = True
        os.close(self._socket.detach())

    def own_address(self) -> str:
        address: str = self._socket.getsockname()[0]
        return address

    def _cut(self, most_bytes: int) -> Frame | None:
        """Take a frame from the front of what was decrypted."""
        if len(self._plain) < _HEADER.size:
            return None
        length, number = _HEADER.unpack_from(self._plain)
        if length > most_bytes:
            raise BadFrame(f"a frame of {length:,} bytes, more than the {most_bytes:,} allowed")
        if number not in FrameKind.__members__.values():
            raise BadFrame(f"a frame of kind {number}, which there is not")
        end = _HEADER.size + length
        if len(self._plain) < end:
            return None
        content = bytes(self._plain[_HEADER.size : end])
        del self._plain[:end]
        return Frame(FrameKind(number), content)

    def _bring(self) -> bool:
        """Take a record from the kernel, or what there is of one; whether it is whole."""
        while missing := self._missing_bytes():
            try:
                came = self._socket.recv(missing)
            except BlockingIOError:
                return False
            if not came:
                raise Hung("end of file")
            self._record += came
        self._incoming.write(self._record)
        self._record.clear()
        return True

    def _missing_bytes(self) -> int:
        """How much of a record's header is missing, or of all of it."""
        if len(self._record) < _RECORD.size:
            return _RECORD.size - len(self._record)
        kind, _, length = _RECORD.unpack_from(self._record)
        if kind not in _RECORD_KINDS or length > _MOST_RECORD_BYTES:
            raise BadFrame("no TLS")
        return int(_RECORD.size + length - len(self._record))

    def _decrypt(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            while text := self._tls.read(_MOST_RECORD_BYTES):
                self._plain += text
            raise Hung("it has hung up")
        if self._outgoing.pending:  # TLS had something to say itself
            with contextlib.suppress(OSError):  # one who has hung up may have said more before
                self._send_off()

    def _send_off(self) -> bool:
        """Give the kernel what it takes; whether that was all there is."""
        self._unsent += self._outgoing.read()
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return False
        return True
