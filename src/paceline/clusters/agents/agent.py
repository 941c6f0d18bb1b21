"""The agent: the one process of ours on a node that somebody else's means have started.

It calls the driver, says what the node is like, and has a keeper forked for each run that it is
told of. What is imported is imported once. When the driver is gone, so is the agent, and so is
everybody else on the node: each keeper has a line of its own to the driver.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from paceline.clusters.agents.nursery import Nursery
from paceline.clusters.agents.probing import expect, probe
from paceline.clusters.agents.versions import own_versions
from paceline.clusters.sent_folders import sweep
from paceline.comm.dialing import dial
from paceline.comm.invitation import Invitation
from paceline.comm.keeper_words import TO_AGENTS, Arrived, Expect, Probe, Serve
from paceline.comm.line import LineClosed
from paceline.comm.tcp_line import TcpLine
from paceline.comm.words import Word
from paceline.system import linux
from paceline.system.cores import usable_cores

# How often it is looked whether the driver's host is still there.
_LOOK_S: Final = 1.0


def called(invitation: Invitation) -> TcpLine:
    """Call the driver; raises `Unanswered` if that comes to no line."""
    linux.name_process("pace-agent")
    return dial(invitation, TO_AGENTS, looks_after=False)


def serve(line: TcpLine, nursery: Nursery) -> None:
    """Be the agent of a node until the driver is gone; raises `RunError` if it cannot go on."""
    sweep()  # after an agent that was killed with all of its own
    try:
        with contextlib.suppress(LineClosed):
            line.send(_arrived(line))
            while not line.hang_up_if_cut_off():
                _heed(line.receive(_LOOK_S), line, nursery)
                nursery.check()
    finally:
        line.close()
        nursery.end()
        sweep()  # after keepers that were killed


def _arrived(line: TcpLine) -> Arrived:
    return Arrived(
        pid=linux.own_pid(),
        host=socket.gethostname(),
        address=line.own_address(),
        cores=usable_cores() or 1.0,
        versions=own_versions(),
    )


def _heed(word: Word | None, line: TcpLine, nursery: Nursery) -> None:
    """Do what the driver asks for."""
    match word:
        case Serve():
            nursery.fork(word)
        case Expect():
            with nursery.resting():
                line.send(expect(word, line.own_address(), line.send))
        case Probe():
            with nursery.resting():
                line.send(probe(word))
