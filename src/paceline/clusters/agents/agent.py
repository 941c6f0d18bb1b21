"""The agent: the one process of ours on a node that somebody else's means have started.

It calls the driver, says what the node is like, and forks a keeper for each run that it is told of.
What is imported is imported once. When the driver is gone, so is the agent, and so is everybody
else on the node: each keeper has a line of its own to the driver.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

from paceline.clusters.agents.probing import expect, probe
from paceline.clusters.agents.versions import own_versions
from paceline.clusters.base import SEAT_VARIABLE
from paceline.clusters.keeper import keep_called
from paceline.clusters.sent_folders import sweep
from paceline.comm.dialing import dial
from paceline.comm.invitation import Invitation
from paceline.comm.keeper_words import TO_AGENTS, TO_KEEPERS, Arrived, Expect, Probe, Serve
from paceline.comm.line import LineClosed
from paceline.comm.tcp_line import TcpLine
from paceline.comm.words import Word
from paceline.system import linux
from paceline.system.cores import usable_cores
from paceline.system.preloading import Preloading

# How often it is looked whether the driver's host is still there.
_LOOK_S: Final = 1.0


def called(invitation: Invitation) -> TcpLine:
    """Call the driver; raises `Unanswered` if that comes to no line.

    To be called, and left, before `serve`: what that forks inherits the stack, where a user's code
    would find the invitation.
    """
    linux.name_process("pace-agent")
    return dial(invitation, TO_AGENTS, looks_after=False)


def serve(line: TcpLine, torch: Preloading | None = None) -> None:
    """Be the agent of a node until the driver is gone; `torch` may be being loaded meanwhile."""
    os.environ[SEAT_VARIABLE] = "1"
    signal.signal(signal.SIGCHLD, _reap)
    sweep()  # after an agent that was killed with all of its own
    with contextlib.suppress(LineClosed):
        line.send(_arrived(line))
        while not line.hang_up_if_cut_off():
            keepers = _heed(line.receive(_LOOK_S), line, torch)
            if keepers is not None:
                _be_keeper(keepers)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)  # keepers hear for themselves that the driver is gone
    sweep()  # after keepers that were killed


def _arrived(line: TcpLine) -> Arrived:
    return Arrived(
        pid=linux.own_pid(),
        host=socket.gethostname(),
        address=line.own_address(),
        cores=usable_cores() or 1.0,
        versions=own_versions(),
    )


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _import(modules: Sequence[str], torch: Preloading | None) -> None:
    """Import what seats will need, once for all runs that are to come."""
    missing = [name for name in modules if name not in sys.modules]
    for name in missing:
        with contextlib.suppress(ImportError):  # a seat will say so
            importlib.import_module(name)
    if torch is not None:
        torch.wait()
    if missing:
        assert threading.active_count() == 1, "a thread does not survive a fork"
        gc.collect()
        gc.freeze()  # the collector then leaves the shared pages of the forks alone


def _heed(word: Word | None, line: TcpLine, torch: Preloading | None) -> TcpLine | None:
    """Do what the driver asks for; in a keeper that was forked for it, gives its own line."""
    match word:
        case Serve():
            _import(word.imports, torch)
            return _forked(word.invitation, line)
        case Expect():
            line.send(expect(word, line.own_address(), line.send))
        case Probe():
            line.send(probe(word))
    return None


def _forked(invitation: Invitation, line: TcpLine) -> TcpLine | None:
    """Fork a keeper, which calls the driver here, so that no frame of a seat has its invitation."""
    if os.fork():
        return None
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        line.forsake()
        return dial(invitation, TO_KEEPERS, looks_after=False)
    except BaseException:  # noqa: BLE001 - or it would go on as a second agent
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _be_keeper(line: TcpLine) -> NoReturn:
    code = 1
    try:
        keep_called(line)
        code = 0
    except BaseException:  # noqa: BLE001 - or it would go on as a second agent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
