"""Calling the driver over TCP, with an invitation of its."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Final

from paceline.comm import round_trips
from paceline.comm.certificates import trusting
from paceline.comm.invitation import Invitation
from paceline.comm.line import LineClosed
from paceline.comm.offset import Gauge
from paceline.comm.secure_socket import BadFrame, Frame, FrameKind, Hung, SecureSocket, is_ready
from paceline.comm.tcp_line import TcpLine
from paceline.comm.vocabularies import Vocabulary
from paceline.system.waiting import Deadline

LOOK_EVERY_S: Final = 1.0
"""How often to look whether the other host is still there."""
ASK_EVERY_S: Final = 10.0
"""How often to ask for the driver's clock: two clocks run apart."""
NUM_TRIPS: Final = 8
"""How many times to ask at first; where answers take long, fewer."""
_COMPARING_S: Final = 1.0
CONNECTING_S: Final = 8.0
"""How long the driver's kernel has to answer: it does so however busy the driver is."""

_log = logging.getLogger(__name__)


class Unanswered(LineClosed):
    """A call that came to no line."""


class NotTrusted(Unanswered):
    """Somebody answered whose certificate is another."""


class TurnedAway(Unanswered):
    """The driver answered, and hung up on what the caller showed."""


def dial(
    invitation: Invitation,
    hears: Vocabulary,
    timeout_s: float = 30.0,
    clock: Callable[[], float] = time.monotonic,
    *,
    looks_after: bool = True,
) -> TcpLine:
    """Call the driver; returns the caller's end of a line. Raises `Unanswered` with the cause.

    `clock` is the monotonic one of this machine, by which the line reads the driver's. Unless a
    thread looks after it, the caller has to call `hang_up_if_cut_off` every second.
    """
    gauge = Gauge(clock)
    deadline = Deadline(timeout_s)
    where = f"the driver at {invitation.host} port {invitation.port}"
    try:
        end = _connected(invitation, min(timeout_s, CONNECTING_S))
        try:
            _introduce(end, invitation, deadline)
            _compare_clocks(end, gauge, deadline)
        except BaseException:
            end.close()
            raise
    except (OSError, BadFrame) as error:
        raise _unanswered(error)(f"cannot call {where}: {_cause(error)}") from error
    line = TcpLine(end, hears, gauge)
    off = gauge.offset
    _log.info("clock: %.6f s ahead of the driver's, ± %.6f s", off.seconds, off.uncertainty_s)
    if looks_after:
        threading.Thread(target=_look_after, args=[line], name="line", daemon=True).start()
    return line


def _connected(invitation: Invitation, timeout_s: float) -> SecureSocket:
    context = trusting(invitation.certificate)
    plain = socket.create_connection((invitation.host, invitation.port), timeout_s)
    return SecureSocket(plain, context, answers=False)


def _introduce(end: SecureSocket, invitation: Invitation, deadline: Deadline) -> None:
    """Make sure that it is the driver, and show that we were invited."""
    while not end.handshake():
        _await(end, deadline)
    end.put(FrameKind.TOKEN, bytes.fromhex(invitation.token))
    answer = _next_frame(end, deadline)
    if answer != Frame(FrameKind.WELCOME, invitation.who.encode()):
        raise BadFrame("it answered for somebody else")


def _compare_clocks(end: SecureSocket, gauge: Gauge, deadline: Deadline) -> None:
    """Ask for the driver's clock a few times, then be ready for words."""
    comparing = Deadline(_COMPARING_S)
    for number in range(NUM_TRIPS):
        if number and not comparing.left_s:
            break
        round_trips.ask(end, gauge)
        frame = _next_frame(end, deadline)
        if frame.kind is not FrameKind.CLOCK:
            raise BadFrame("it did not tell its clock")
        round_trips.learn(gauge, frame.content)
    end.put(FrameKind.READY)


def _next_frame(end: SecureSocket, deadline: Deadline) -> Frame:
    while (frame := end.take()) is None:
        _await(end, deadline)
    return frame


def _await(end: SecureSocket, deadline: Deadline) -> None:
    """Wait for an answer; raises as soon as it is known that the driver's host is gone."""
    while left_s := deadline.left_s:
        if is_ready(end, select.POLLIN, min(left_s, LOOK_EVERY_S)):
            return
        if end.hang_up_if_cut_off():
            raise TimeoutError("its host is gone, or the link to it is cut")
    raise TimeoutError("it did not answer in time")


def _unanswered(error: Exception) -> type[Unanswered]:
    if isinstance(error, ssl.SSLCertVerificationError):
        return NotTrusted
    return TurnedAway if isinstance(error, Hung) else Unanswered


def _cause(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not the one of the invitation"
    if isinstance(error, Hung):
        return "it hung up: the invitation was used before, or withdrawn"
    return str(error)


def _look_after(line: TcpLine) -> None:
    asked_s = time.monotonic()
    while not line.hang_up_if_cut_off():
        if time.monotonic() >= asked_s + ASK_EVERY_S:
            asked_s = time.monotonic()
            with contextlib.suppress(LineClosed):
                line.ask_for_clock()
        time.sleep(LOOK_EVERY_S)
