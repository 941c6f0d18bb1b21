"""What a keeper does while its seats work: tell of those that end, and end those that are left."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from paceline.clusters.slowing import Slowed
from paceline.comm.keeper_words import Again, Cut, Dump, Left, Signal, Slow
from paceline.comm.line import Line
from paceline.comm.words import Word
from paceline.system import linux

DUMP: Final = signal.SIGRTMAX - 3
"""Has a seat write its stack to its log. Not one of those that libraries or users like to take."""
# How often stopped seats are looked at while one is.
_LOOK_S: Final = 0.2


def wake_on_child() -> socket.socket:
    """Make a socket that becomes readable when a child has ended."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    reader.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    writer.detach()
    return reader


@final
class Minder:
    """Tells the driver of each seat that ends, until it is gone, and does what it asks for.

    `begin` starts a seat with a line of its own, and gives its pid; `cut` takes a link down.
    """

    def __init__(
        self,
        line: Line,
        *,
        begin: Callable[[Again, int], int],
        cut: Callable[[Cut], None],
        most_stopped_s: float,
    ) -> None:
        self._line = line
        self._begin = begin
        self._cut = cut
        self._most_stopped_s = most_stopped_s
        self._sitting: dict[int, tuple[str, int]] = {}
        self._stopped: dict[int, float] = {}
        self._slowed = Slowed()

    @property
    def pids(self) -> list[int]:
        return [*self._sitting]

    def add(self, pid: int, seat: str, incarnation: int = 0) -> None:
        """Mind a seat that was started."""
        self._sitting[pid] = (seat, incarnation)

    def mind(self, wakeup: socket.socket) -> None:
        """Mind them until the driver is gone, which is raised as `LineClosed`."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._line, selectors.EVENT_READ)
            selector.register(wakeup, selectors.EVENT_READ)
            while True:
                self._reap()
                self._end_stopped()
                for key, _ in selector.select(self._look_s()):
                    if key.fileobj is wakeup:
                        wakeup.recv(4096)
                    else:
                        self._heed_all()
                self._line.hang_up_if_cut_off()

    def _look_s(self) -> float | None:
        """How long nothing has to be done, if nothing happens."""
        due = [self._line.look_every_s, _LOOK_S if self._stopped else None, self._slowed.turn()]
        return min((each for each in due if each is not None), default=None)

    def _heed_all(self) -> None:
        while True:
            word, handed = self._line.receive_handed()
            if word is None:
                return
            self._heed(word, handed)

    def _heed(self, word: Word, handed: list[int]) -> None:
        match word:
            case Dump(seat):
                self._signal(seat, DUMP)
            case Signal(seat=seat, number=number):
                self._signal(seat, number)
            case Slow(seat=seat, factor=factor):
                for pid in self._pids_of(seat):
                    self._slowed.slow(pid, factor)
            case Again(seat=seat, incarnation=incarnation):
                self._signal(seat, signal.SIGKILL)
                self.add(self._begin(word, handed[0]), seat, incarnation)
            case Cut():
                self._cut(word)

    def _pids_of(self, seat: str) -> list[int]:
        return [pid for pid, (name, _) in self._sitting.items() if name == seat]

    def _signal(self, seat: str, number: int) -> None:
        for pid in self._pids_of(seat):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _reap(self) -> None:
        """Tell of seats that have ended; note which have been stopped, and which go on."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._stopped[pid] = time.monotonic()
                continue
            self._stopped.pop(pid, None)
            if pid in self._sitting and not os.WIFCONTINUED(status):
                self._has_left(pid, _reason(status))

    def _end_stopped(self) -> None:
        """A seat that stays stopped is as good as dead: the others wait for it."""
        for pid, since_s in list(self._stopped.items()):
            if time.monotonic() - since_s < self._most_stopped_s:
                continue
            del self._stopped[pid]
            if pid in self._sitting:
                os.kill(pid, signal.SIGKILL)
                self._has_left(pid, f"stopped (SIGSTOP) for more than {self._most_stopped_s:g} s")

    def _has_left(self, pid: int, reason: str) -> None:
        seat, incarnation = self._sitting.pop(pid)
        self._slowed.forget(pid)
        self._line.send(Left(seat, reason, incarnation))


def _reason(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    return f"exit code {code}" if code else ""


def end_all(pids: list[int]) -> None:
    """Kill the seats and their strays."""
    if os.getpid() == 1:
        return  # when init of a PID namespace ends, the kernel kills everyone in it
    for pid in {*pids, *_children()}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # Orphans of those just killed are handed to us, and are next.
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
            for stray in _children():
                os.kill(stray, signal.SIGKILL)


def _children() -> list[int]:
    text = Path(f"/proc/self/task/{linux.own_pid()}/children").read_text()
    return [int(pid) for pid in text.split()]
