"""Asking the other end of a connection for its clock, and answering."""

from __future__ import annotations

import math
import struct
from time import monotonic
from typing import Final

from paceline.comm.offset import Gauge
from paceline.comm.secure_socket import BadFrame, FrameKind, SecureSocket

_QUESTION: Final = struct.Struct("!d")
_ANSWER: Final = struct.Struct("!dd")


def ask(end: SecureSocket, gauge: Gauge) -> None:
    """Send the question, with the moment at which it was asked."""
    end.put(FrameKind.ASK, _QUESTION.pack(gauge.here_s()))


def answer(end: SecureSocket, question: bytes) -> None:
    """Send the question back with our own clock; where there is no room, it is lost."""
    if len(question) != _QUESTION.size:
        raise BadFrame(f"a question of {len(question)} bytes")
    if end.has_room():
        end.put(FrameKind.CLOCK, question + _QUESTION.pack(monotonic()))


def learn(gauge: Gauge, content: bytes) -> None:
    """Take note of an answer."""
    if len(content) != _ANSWER.size:
        raise BadFrame(f"a clock of {len(content)} bytes")
    sent_s, there_s = _ANSWER.unpack(content)
    if not (math.isfinite(sent_s) and math.isfinite(there_s)):
        raise BadFrame("a clock that shows no number")
    gauge.learn(sent_s, there_s)
