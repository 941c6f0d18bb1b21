"""A seat's end of its line: remembers what the driver said until somebody asks for it."""

from __future__ import annotations

import contextlib
import math
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, final

from paceline.comm.line import Line, LineClosed
from paceline.comm.roster import Roster
from paceline.comm.words import Abort, Finish, Lost, Members, RestAt, Stop, Word
from paceline.errors import Aborted, PeerLost
from paceline.system.waiting import Deadline

T = TypeVar("T")
W = TypeVar("W", bound=Word)


class _Heeded(NamedTuple):
    """Which thread acts on which words, and how."""

    thread: int
    kind: type[Word]
    act: Callable[[Any], bool]


@final
class SeatLine:
    """Any thread may `poll`; the word that the run cannot go on is then raised in each that does.

    Only one may wait: it hears of what another took meanwhile.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self.clock = line.clock
        """Reads the driver's clock, of which all moments in words are."""
        self._lock = threading.Lock()
        """Held by who takes a word, which never waits; guards all of these."""
        self._taken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._sleeps = False
        self._said: deque[Word] = deque()
        self._aborted: str | None = None
        self._roster: Roster | None = None
        self._heeded: _Heeded | None = None
        self.stop_wanted = False
        self.rest_wanted: int | None = None
        """At which progress a worker is to rest next, said while it trained."""
        self.finished = False

    def fileno(self) -> int:
        """The descriptor to wait on beside others; call `poll` when it is readable."""
        return self._line.fileno()

    def send(self, word: Word) -> None:
        """Say something to the driver. Raises `Aborted` when it is gone."""
        try:
            self._line.send(word)
        except LineClosed:
            raise Aborted("the driver is gone") from None

    def say_lost(self, lost: PeerLost) -> None:
        """Say which seat is out of reach: who sat there as far as was heard, not who comes next."""
        roster, incarnation = self._roster, None
        if roster is not None:
            sitting = roster.by_name.get(lost.seat)
            incarnation = roster.gone.get(lost.seat) if sitting is None else sitting.incarnation
        self.send(Lost(lost.seat, lost.reason, incarnation))

    def offer(self, word: Word) -> bool:
        """Say something unless there is no room, without ever waiting; returns whether it was."""
        try:
            return self._line.offer(word)
        except LineClosed:
            raise Aborted("the driver is gone") from None

    def close(self) -> None:
        """Let go of it. Idempotent."""
        self._line.close()
        with self._lock:
            if self._taken >= 0:
                os.close(self._taken)
                self._taken = -1

    def roster(self) -> Roster:
        """Give the newest roster that was heard; waits for the first one."""
        return self._await(lambda: self._roster)

    def await_roster(self, after: int, timeout_s: float) -> Roster | None:
        """Wait for a roster of a later epoch than `after`; None when the time is up."""
        return self._look_out(lambda: self._later_roster(after), timeout_s)

    def _later_roster(self, after: int) -> Roster | None:
        roster = self._roster
        return roster if roster is not None and roster.epoch > after else None

    @property
    def newest_roster(self) -> Roster | None:
        """The newest roster that was heard, if any was; does not wait."""
        return self._roster

    def poll(self) -> None:
        """Take note of everything said so far. Raises `Aborted` when the run cannot go on."""
        with self._lock:
            while self._take():
                pass
        heeded = self._heeded
        if heeded is not None and heeded.thread == threading.get_ident():
            self._act(heeded)

    def heed(self, kind: type[W], act: Callable[[W], bool]) -> None:
        """Have the calling thread act on words of a kind whenever it polls.

        `act` returns whether it has; else the word is given again with the next poll.
        """
        self._heeded = _Heeded(threading.get_ident(), kind, act)

    def _act(self, heeded: _Heeded) -> None:
        with self._lock:
            due = [word for word in self._said if isinstance(word, heeded.kind)]
        for word in due:
            if not heeded.act(word):
                return
            with self._lock:
                self._said.remove(word)

    def wait(self, *kinds: type[W]) -> W:
        """Wait until a word of one of the kinds has come, and return it."""
        return self._await(lambda: self._pick(kinds))

    def wait_a_while(self, timeout_s: float, *kinds: type[W]) -> W | None:
        """The same, or None when the time is up."""
        return self._look_out(lambda: self._pick(kinds), timeout_s)

    def await_abort(self, timeout_s: float) -> None:
        """Wait a while for the word that the run cannot go on; raises it as `Aborted`."""
        self._look_out(lambda: None, timeout_s)

    def listen(self, timeout_s: float) -> Word | None:
        """Give the oldest word that nobody has asked for; None when the time is up."""
        return self._look_out(lambda: self._pick((Word,)), timeout_s)

    def _pick(self, kinds: tuple[type[W], ...]) -> W | None:
        for word in self._said:
            if isinstance(word, kinds):
                self._said.remove(word)
                return word
        return None

    def _await(self, find: Callable[[], T | None]) -> T:
        found = self._look_out(find, None)
        assert found is not None, "it was waited for without a time"
        return found

    def _look_out(self, find: Callable[[], T | None], timeout_s: float | None) -> T | None:
        """Take words until something is found, or the time is up."""
        deadline = Deadline(timeout_s)
        while True:
            with self._lock:
                while (found := find()) is None and self._take():
                    pass
                self._sleeps = found is None
            if found is not None or not self._sleep(deadline.left_s):
                return found

    def _sleep(self, seconds: float) -> bool:
        """Sleep until something has come, or another thread has taken it."""
        poller = select.poll()
        poller.register(self._line.fileno(), select.POLLIN)
        poller.register(self._taken, select.POLLIN)
        is_awake = bool(poller.poll(None if math.isinf(seconds) else math.ceil(seconds * 1000)))
        with self._lock:
            self._sleeps = False
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._taken)
        return is_awake

    def _take(self) -> bool:
        """Take a word if one has come; its finder holds the lock."""
        if self._aborted is not None:
            raise Aborted(self._aborted)
        try:
            word = self._line.receive(timeout_s=0)
        except LineClosed:
            word = Abort("the driver is gone")
        if word is None:
            return False
        if self._sleeps:  # whoever sleeps may be waiting for this very word
            os.eventfd_write(self._taken, 1)
        if isinstance(word, Abort):
            self._aborted = word.reason
            raise Aborted(self._aborted)
        if isinstance(word, Members):
            self._roster = word.roster
            return True
        if isinstance(word, RestAt):
            self.rest_wanted = word.progress
            return True
        self.stop_wanted |= isinstance(word, Stop)
        self.finished |= isinstance(word, Finish)
        self._said.append(word)
        return True
