"""Joining by hand: call the driver, again and again until it is there, and be its agent."""

from __future__ import annotations

import os
import sys
import time
from typing import Final, NoReturn

from paceline.clusters.agents.addresses import address_towards, is_loopback
from paceline.clusters.agents.agent import called
from paceline.clusters.agents.manual.meeting import invitation_from, numeric, who_at
from paceline.comm.dialing import NotTrusted, TurnedAway
from paceline.comm.invitation import Invitation
from paceline.comm.line import LineClosed
from paceline.comm.tcp_line import TcpLine
from paceline.errors import RunError
from paceline.system.interpreter import own_command
from paceline.system.waiting import Deadline

_AGAIN_S: Final = 0.5
# A driver may need this host in a later run only; who waits for longer wants to know why.
_SILENT_S: Final = 5.0
_AS: Final = "is it in [cluster.hosts]? --as HOST says what the list calls this machine"


def invited(secret: str, host: str, port: int, name: str | None, wait_s: float) -> Invitation:
    """Make the invitation that the driver has in mind for this host; `name` is what it calls it.

    Raises `RunError` if no way leads there in time.
    """
    deadline = Deadline(wait_s)
    while True:
        try:
            address = _known_as(name, host)
            return invitation_from(secret, host, port, address, who_at(address))
        except OSError as error:
            if not deadline.left_s:
                raise RunError(f"no way leads to {name or host}: {error.strerror}") from error
            time.sleep(_AGAIN_S)


def _known_as(name: str | None, host: str) -> str:
    """Give the address by which the driver knows this host.

    It cannot know it by a loopback address, which a machine's own name often stands for, unless it
    is itself called at one.
    """
    if not name:
        return address_towards(host)
    address = numeric(name)
    leading = address_towards(host) if is_loopback(address) else address
    return address if is_loopback(leading) else leading


def go_on_invited(invitation: Invitation, wait_s: float) -> NoReturn:
    """Become another program that has this invitation and nothing else.

    A user's code will run in what it forks: neither there nor in an ancestor of it is the secret
    that the invitation was made from.
    """
    reader, writer = os.pipe()
    os.write(writer, f"{invitation.written()}\n".encode())  # far less than a pipe holds
    os.close(writer)
    os.dup2(reader, 0)
    command = own_command("paceline", "join", "-", "--wait", f"{wait_s:g}")
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


def called_at_last(invitation: Invitation, wait_s: float) -> TcpLine:
    """Call the driver, once it is there and waits for this host.

    Raises `RunError` that says why it cannot be served.
    """
    deadline, silent = Deadline(wait_s), Deadline(_SILENT_S)
    where = f"the driver at {invitation.host} port {invitation.port}"
    tell(f"waiting for {where}")
    while True:
        try:
            return called(invitation)
        except NotTrusted as error:
            reason = "its secret is not this machine's, or it is somebody else"
            raise RunError(f"{where} is not trusted: {reason}") from error
        except TurnedAway as error:
            who = invitation.who.removeprefix("host ")
            reason = f"{where} does not wait for {who}, or that one has joined: {_AS}"
            if not deadline.left_s:
                raise RunError(f"not let in within {wait_s:g} s: {reason}") from error
            if not silent.left_s:
                tell(f"{reason}; trying again for {deadline.left_s:.0f} s")
                silent = Deadline(None)  # it was said
        except (LineClosed, OSError) as error:
            if not deadline.left_s:
                raise RunError(f"no answer within {wait_s:g} s: {error}") from error
        time.sleep(_AGAIN_S)


def tell(text: str) -> None:
    """Say something to whoever has typed the command."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - as said
