"""A seat's sink, and where what it keeps arrives: what every kind of sink is tried with."""

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from paceline.comm.line import Line
from paceline.comm.roster import Seat
from paceline.comm.seat_line import SeatLine
from paceline.comm.words import Piece, Saved
from paceline.sinks.base import Sink
from paceline.sinks.deliveries import Deliveries
from paceline.sinks.folder import FolderSink
from paceline.sinks.line import LineSink
from paceline.store.runs import RunDir
from tests.comm.lines import line_of_a_seat, tcp_line_of_a_seat

WORKER = Seat("worker", 0, "node0")


def run_in(folder: Path) -> RunDir:
    run = RunDir(folder / "run")
    for each in (run.path, run.records, run.logs):
        each.mkdir()
    return run


class Desk(ABC):
    """Both ends of a sink."""

    sink: Sink
    run: RunDir

    @abstractmethod
    def reading(self) -> contextlib.AbstractContextManager[None]:
        """Have somebody read what is sent, in the background; all of it is read at the end."""

    @abstractmethod
    def close(self) -> None: ...


class FolderDesk(Desk):
    def __init__(self, folder: Path, seat: Seat) -> None:
        self.run = run_in(folder)
        self.sink = FolderSink(self.run, seat)

    def reading(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None:
        self.sink.close()


class LineDesk(Desk):
    def __init__(
        self,
        folder: Path,
        seat: Seat,
        lines: Callable[[], tuple[Line, SeatLine]] = line_of_a_seat,
        **limits: float,
    ) -> None:
        self.run = run_in(folder)
        self.line, self.seat_line = lines()
        self.sink = LineSink(self.seat_line, **limits)
        self.name = seat.name
        self.warnings: list[str] = []
        self.failures: list[tuple[str, str]] = []
        self.deliveries = Deliveries(
            self.run,
            [seat],
            warn=self.warnings.append,
            fail=lambda name, reason: self.failures.append((name, reason)),
        )

    def read(self) -> int:
        """Take all that has come; returns how many words that were."""
        num_words = 0
        while (word := self.line.receive(timeout_s=0)) is not None:
            assert isinstance(word, Piece)
            self.deliveries.take(self.name, word)
            num_words += 1
        return num_words

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        def read_on() -> None:
            while isinstance(word := self.line.receive(), Piece):
                self.deliveries.take(self.name, word)

        thread = threading.Thread(target=read_on)
        thread.start()
        try:
            yield
        finally:
            self.seat_line.send(Saved())
            thread.join()

    def close(self) -> None:
        self.line.close()
        self.sink.close()
        self.seat_line.close()


KINDS: dict[str, Callable[[Path, Seat], Desk]] = {
    "folder": FolderDesk,
    "line": LineDesk,
    "tcp": partial(LineDesk, lines=tcp_line_of_a_seat),
}
