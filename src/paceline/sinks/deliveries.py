"""What seats send that do not see the run's folder, written by the driver into the same files.

A piece says what it is of, never a name: the file follows from that and from whose line it came on.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, cast, final, get_args

from paceline.comm.keepsakes import KeptFile, StreamName
from paceline.comm.roster import Seat
from paceline.comm.words import Piece
from paceline.errors import StoreError
from paceline.seats import Role
from paceline.sinks.folder import FolderSink
from paceline.store.runs import RunDir

_STREAMS: Final = get_args(StreamName)
_OF_ROLES: Final[Mapping[Role, tuple[str, ...]]] = {
    # Which worker keeps the model is the driver's word: the first may be gone.
    "worker": ("rows", "losses", "log", "model", "trace", "operators", "state"),
    "server": ("log", "trace", "operators", "state", "snapshot"),
    "monitor": ("rows", "log"),
}
# No more of anything is taken from one seat. Of rows no more is read by whoever seals the run.
_MOST_BYTES: Final[Mapping[str, int]] = {
    "rows": 1 << 30,
    "losses": 1 << 34,
    "log": 1 << 32,
    "model": 1 << 38,
    "graph": 1 << 28,
    "trace": 1 << 32,
    "operators": 1 << 28,
    "state": 1 << 38,
    "snapshot": 1 << 38,
}
# How often a seat is told of: one that drops again and again would fill the result.
_MOST_TOLD: Final = 5


@final
class Deliveries:
    """Takes the pieces of all seats. Holds no file open between two of them."""

    def __init__(
        self,
        run: RunDir,
        seats: Iterable[Seat],
        *,
        warn: Callable[[str], None],
        fail: Callable[[str, str], None],
    ) -> None:
        """`fail` is called with a seat's name and why what it sent is not kept."""
        self._desks = {seat.name: _Desk(run, seat) for seat in seats}
        self._warn = warn
        self._fail = fail
        self._num_told: Counter[str] = Counter()

    def begin_again(self, seat: str) -> None:
        """A seat was started again, and sends everything from its first byte on."""
        self._desks[seat].begin_again()

    def take(self, seat: str, piece: Piece) -> None:
        """Keep a piece that came on a seat's line."""
        if piece.dropped > 0 and self._num_told[seat] < _MOST_TOLD:
            self._num_told[seat] += 1
            self._warn(
                f"{seat} dropped {piece.dropped:,} entries of its {piece.what}: "
                "the driver did not take them in time"
            )
        desk = self._desks[seat]
        try:
            desk.take(piece)
        except (StoreError, OSError, ValueError) as error:
            desk.refuse(piece.what)
            self._fail(seat, f"what it sent of its {piece.what} was not kept: {error}")


@final
class _Desk:
    """Where one seat's pieces are taken, and checked to be its own and the next."""

    def __init__(self, run: RunDir, seat: Seat) -> None:
        self._run = run
        self._kept = FolderSink(run, seat)
        self._own = _OF_ROLES[seat.role]
        if seat.role == "worker" and seat.index == 0:
            self._own += ("graph",)
        self._num_bytes: Counter[str] = Counter()
        self._arriving: dict[str, _Arriving] = {}

        self._refused: set[str] = set()

    def begin_again(self) -> None:
        self._num_bytes.clear()
        for what in [*self._arriving]:
            self._forget(what)

    def refuse(self, what: Literal[StreamName, KeptFile]) -> None:
        """Take no more of it: one piece less, and the rest is worth nothing."""
        self._refused.add(what)
        self._forget(what)

    def _forget(self, what: str) -> None:
        """Remove what came of a file: the disk may be full of it."""
        file = self._arriving.pop(what, None)
        if file is not None:
            file.path.unlink(missing_ok=True)

    def take(self, piece: Piece) -> None:
        what, known = piece.what, self._num_bytes[piece.what]
        if what in self._refused:
            return
        if what not in self._own:
            raise StoreError(f"not its own (its own: {', '.join(self._own)})")
        if piece.start != known:
            raise StoreError(f"a piece begins at byte {piece.start:,}, not at {known:,}")
        data = base64.b64decode(piece.data, validate=True)
        if known + len(data) > _MOST_BYTES[what]:
            raise StoreError(f"more than {_MOST_BYTES[what]:,} bytes")
        self._run.check_there()
        self._num_bytes[what] += len(data)
        if what in _STREAMS:
            self._kept.append(cast("StreamName", what), data)
            self._kept.close()
        else:
            self._take_file(cast("KeptFile", what), data, piece.digest)

    def _take_file(self, what: KeptFile, data: bytes, digest: str | None) -> None:
        if what not in self._arriving:
            self._arriving[what] = _Arriving(self._run.partial())
        file = self._arriving[what]
        file.add(data)
        if digest is None:
            return
        if digest != file.digest:
            raise StoreError("it arrived damaged: its checksum is another one")
        self._kept.put(what, file.path.replace)
        del self._arriving[what], self._num_bytes[what]


@final
class _Arriving:
    """A file that is not yet whole; the seal removes it if it never is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sum = hashlib.sha256()

    def add(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)
        self._sum.update(data)

    @property
    def digest(self) -> str:
        return self._sum.hexdigest()
