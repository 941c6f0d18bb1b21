"""A seat's line to the driver as a sink, for seats that do not see the run's folder.

What is appended is offered to the line at once. Where that is full it waits, in memory and up to a
limit; what finds no room there either is dropped, counted and told of. So a driver that does not
read never holds up a step. A file is sent in pieces and waited for: it is put where nobody trains.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal, final

from paceline.comm.keepsakes import KeptFile, StreamName
from paceline.comm.seat_line import SeatLine
from paceline.comm.words import Piece
from paceline.errors import Aborted, StoreError
from paceline.sinks.base import Sink
from paceline.system.waiting import Deadline

# Two thirds of the longest word, as a piece travels.
_PIECE_BYTES: Final = 1 << 16
# How much of each stream waits while the driver takes nothing: hours of rows.
_MOST_WAITING_BYTES: Final = 1 << 22
# How long the driver may take nothing of a file.
_PATIENCE_S: Final = 60.0
# How long what waits is offered when the seat leaves: less than the driver then waits for it.
_CLOSING_S: Final = 4.0
_PAUSE_S: Final = 0.002


@dataclass
class _Sent:
    """How far a stream is."""

    start: int = 0
    waiting_bytes: int = 0
    dropped: int = 0


@final
class LineSink(Sink):
    """Sends what a seat keeps to the driver, which writes it into the files it belongs to."""

    def __init__(
        self,
        line: SeatLine,
        *,
        most_waiting_bytes: int = _MOST_WAITING_BYTES,
        patience_s: float = _PATIENCE_S,
        closing_s: float = _CLOSING_S,
    ) -> None:
        self._line = line
        self._most_waiting_bytes = most_waiting_bytes
        self._patience_s = patience_s
        self._closing_s = closing_s
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Piece, _Sent, int]] = deque()
        self._streams: dict[StreamName, _Sent] = {}
        self._is_closed = False

    def append(self, what: StreamName, data: bytes) -> None:
        with self._lock:
            if self._is_closed:
                return
            stream = self._streams.setdefault(what, _Sent())
            if self._has_room(what, stream, len(data)):
                for start in range(0, len(data) or 1, _PIECE_BYTES):
                    self._queue(what, data[start : start + _PIECE_BYTES], stream)
            else:
                stream.dropped += 1
            self._offer_all()

    def _has_room(self, what: StreamName, stream: _Sent, num_bytes: int) -> bool:
        if what == "losses" and stream.dropped:
            return False  # losses have no numbers: behind a gap they would be those of other steps
        return stream.waiting_bytes + num_bytes <= self._most_waiting_bytes

    def _queue(self, what: StreamName, data: bytes, stream: _Sent) -> None:
        piece = _piece(what, stream.start, data, dropped=stream.dropped)
        stream.start += len(data)
        stream.waiting_bytes += len(data)
        stream.dropped = 0
        self._waiting.append((piece, stream, len(data)))

    def _offer_all(self) -> bool:
        """Offer what waits until there is no room; returns whether nothing waits any longer."""
        while self._waiting:
            piece, stream, num_bytes = self._waiting[0]
            if not self._line.offer(piece):
                return False
            self._waiting.popleft()
            stream.waiting_bytes -= num_bytes
        return True

    def offer_waiting(self) -> None:
        """Offer what waits once more."""
        with self._lock:
            self._offer_all()

    def put(self, what: KeptFile, write: Callable[[Path], object]) -> None:
        with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
            path = Path(folder, what)
            write(path)
            with path.open("rb") as file:
                for piece in _pieces(what, file):
                    self._deliver(piece)

    def _deliver(self, piece: Piece) -> None:
        """Wait until a piece is sent, after all that waits."""
        with self._lock:
            self._waiting.append((piece, _Sent(), 0))
        if not self._wait_for_room(self._patience_s):
            raise StoreError(
                f"the driver took nothing of the {piece.what} for {self._patience_s:g} s"
            )

    def _wait_for_room(self, timeout_s: float) -> bool:
        """Wait until nothing waits; returns whether that was in time."""
        deadline = Deadline(timeout_s)
        while True:
            with self._lock:
                if self._offer_all():
                    return True
            if not deadline.left_s:
                return False
            time.sleep(_PAUSE_S)

    def check(self) -> None:
        """Nothing: the driver sees the folder, and tells."""

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            for what, stream in self._streams.items():
                if stream.dropped:
                    self._queue(what, b"", stream)
        with contextlib.suppress(Aborted):  # it is gone, and with it whoever could want this
            self._wait_for_room(self._closing_s)


def _pieces(what: KeptFile, file: BinaryIO) -> Iterator[Piece]:
    """Cut a file into pieces, the last with the digest of all."""
    digest, start, is_last = hashlib.sha256(), 0, False
    while not is_last:
        data = file.read(_PIECE_BYTES)
        digest.update(data)
        is_last = len(data) < _PIECE_BYTES
        yield _piece(what, start, data, digest=digest.hexdigest() if is_last else None)
        start += len(data)


def _piece(
    what: Literal[StreamName, KeptFile],
    start: int,
    data: bytes,
    *,
    dropped: int = 0,
    digest: str | None = None,
) -> Piece:
    text = base64.b64encode(data).decode()
    return Piece(what=what, start=start, data=text, dropped=dropped, digest=digest)
