"""Where the keepers of a node come from: a process that imports torch beside its agent's own work.

The agent forks it first of all. While it imports, the agent calls the driver, and measures the ways
to other nodes; what nodes have in common with a run, an invitation above all, is not there yet.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn, Self, final

from paceline.clusters.base import SEAT_VARIABLE
from paceline.clusters.keeper import keep_called
from paceline.comm.dialing import dial
from paceline.comm.invitation import Invitation
from paceline.comm.keeper_words import TO_AGENTS, TO_KEEPERS, Serve
from paceline.comm.line import LineClosed
from paceline.comm.pair_line import PairLine
from paceline.comm.tcp_line import TcpLine
from paceline.comm.vocabularies import NOTHING
from paceline.errors import RunError
from paceline.system import linux
from paceline.system.cores import usable_cores
from paceline.system.preloading import Preloading

_EARLY: Final = ("torch",)
# With fewer cores, what is imported and what is measured would take them from each other.
_FOR_BOTH: Final = 2


@final
class Nursery:
    """The agent's side. Made while the agent has one thread; it ends with the agent."""

    def __init__(self, *agents_own: int) -> None:
        """`agents_own` are descriptors that nobody else is to have; nor is standard input."""
        mine, other = PairLine.pair()
        self._pid = os.fork()
        if not self._pid:
            mine.close()
            _let_go([*agents_own])
            _live(PairLine(other, hears=TO_AGENTS))
        other.close()
        self._line = PairLine(mine, hears=NOTHING)
        self._has_keepers = self._is_over = False

    def fork(self, word: Serve) -> None:
        """Have it fork a keeper, once it has imported what its seats will need; does not wait."""
        self._has_keepers = True
        with contextlib.suppress(LineClosed):  # `check` says so
            self._line.send(word)

    def check(self) -> None:
        """Raise `RunError` if it has ended."""
        try:
            self._line.receive(timeout_s=0)
        except LineClosed as error:
            raise RunError("the process that imports torch there has ended") from error

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Have it rest meanwhile, where there are too few cores for both."""
        if (usable_cores() or 1.0) >= _FOR_BOTH:
            yield
            return
        os.kill(self._pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Wait until the last keeper has heard for itself that the driver is gone; idempotent."""
        if self._is_over:
            return
        self._is_over = True
        self._line.close()
        if not self._has_keepers:  # it may still import, for nobody
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _let_go(descriptors: Sequence[int]) -> None:
    for each in descriptors:
        os.close(each)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # where the agent's invitation comes
    os.close(nothing)


def _live(line: PairLine) -> NoReturn:
    """Be the nursery to its end; a keeper that it forks comes by here too."""
    code = 1
    try:
        keepers = _forking(line)
        if keepers is not None:
            keep_called(keepers)
        code = 0
    except BaseException:  # noqa: BLE001 - or it would go on as a second agent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _forking(line: PairLine) -> TcpLine | None:
    """Fork keepers until the agent is gone; in a keeper, gives its own line to the driver."""
    linux.die_with_parent()
    linux.name_process("pace-nursery")
    torch = Preloading("torch", "lib/libtorch_cpu.so")
    os.environ[SEAT_VARIABLE] = "1"
    interrupted = signal.signal(signal.SIGINT, signal.SIG_DFL)  # it has nothing to say then
    signal.signal(signal.SIGCHLD, _reap)
    _import(_EARLY, torch)
    with contextlib.suppress(LineClosed):
        while True:
            word = line.receive()
            assert isinstance(word, Serve)
            _import(word.imports, torch)
            if not os.fork():
                signal.signal(signal.SIGINT, interrupted)
                line.close()
                return _called(word.invitation)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    return None


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _import(modules: Sequence[str], torch: Preloading) -> None:
    """Import what seats will need, once for all runs that are to come."""
    missing = [name for name in modules if name not in sys.modules]
    for name in missing:
        with contextlib.suppress(ImportError):  # a seat will say so
            importlib.import_module(name)
    torch.wait()
    if missing:
        assert threading.active_count() == 1, "a thread does not survive a fork"
        gc.collect()
        gc.freeze()  # the collector then leaves the shared pages of the forks alone


def _called(invitation: Invitation) -> TcpLine:
    """Call the driver as a keeper, here, so that no frame of a seat has its invitation."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return dial(invitation, TO_KEEPERS, looks_after=False)
