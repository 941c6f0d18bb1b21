"""The gate of a mailbox: lets in who shows credentials of this run, and nobody else.

ZeroMQ asks for each connection, by its own protocol (ZAP, RFC 27), whenever a handshake happens:
also while the seat computes. So it is answered by a thread.
"""

from __future__ import annotations

import threading
from typing import Final, final

import zmq

from paceline.comm.credentials import Credentials

_ASKED_AT: Final = "inproc://zeromq.zap.01"
_VERSION: Final = b"1.0"


@final
class Gate:
    """Knows the seats of a run by what they show. Must be there before a mailbox is bound."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], credentials: Credentials) -> None:
        self.credentials = credentials
        """May be replaced by newer ones at any time."""
        self._socket = context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(_ASKED_AT)
        threading.Thread(target=self._answer_all, name="gate", daemon=True).start()

    def _answer_all(self) -> None:
        """Answer until the context is terminated."""
        try:
            while True:
                self._socket.send_multipart(self._answer(self._socket.recv_multipart()))
        except zmq.ContextTerminated:
            self._socket.close()

    def _answer(self, question: list[bytes]) -> list[bytes]:
        """Say whether a peer is one of us, and which: that becomes the `User-Id` of its frames."""
        _, request, _, _, _, mechanism, *shown = question
        name = self.credentials.name_of(mechanism, shown)
        if name is None:
            # Who shows a key may be a seat that was started again, of whom we have yet to hear:
            # "300" hangs up, and it comes again. After "400" ZeroMQ does not.
            status = b"300" if mechanism == b"CURVE" else b"400"
            return [_VERSION, request, status, b"not of this run", b"", b""]
        return [_VERSION, request, b"200", b"", name, b""]
