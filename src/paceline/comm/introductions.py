"""How seats that are forked together learn each other's public keys.

Each seat makes its pair after the fork, so no other process ever has its secret. The public half
goes to whoever forked them, who sends all of them to all.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterable
from typing import Final, final

from paceline.comm.credentials import Keys
from paceline.comm.line import Line, LineClosed, SeatLine
from paceline.errors import Aborted

# A seat introduces itself first of all: only one that has ended does not.
_PATIENCE_S: Final = 60.0
# How long a seat that hears of no keys waits for the driver to say why.
_GRACE_S: Final = 5.0


@final
class Introductions:
    """A line to each seat, made before they are forked."""

    def __init__(self, names: Iterable[str]) -> None:
        self._pairs = {name: Line.pair() for name in names}

    def introduce(self, name: str, driver: SeatLine) -> Callable[[], Keys]:
        """Make this seat's pair and tell its public half; called once, in the seat.

        Returns what waits for the keys of all seats.
        """
        import zmq

        own = Line(self._keep_only(name))
        public, secret = zmq.curve_keypair()
        with contextlib.suppress(LineClosed):  # then there is nothing to be heard either
            own.send("key", public=public.decode())

        def keys() -> Keys:
            try:
                message = own.receive(_PATIENCE_S)
            except LineClosed:
                message = None
            own.close()
            if message is None:
                driver.await_abort(_GRACE_S)
                raise Aborted("a seat ended before it sent its key")
            seats = {seat: each.encode() for seat, each in message["seats"].items()}
            return Keys(public, secret, seats)

        return keys

    def _keep_only(self, name: str) -> socket.socket:
        for each, (lead, end) in self._pairs.items():
            lead.close()
            if each != name:
                end.close()
        return self._pairs[name][1]

    def lead(self) -> None:
        """Hear the keys of all and tell them to all; called once, by who forked the seats."""
        lines = {name: Line(lead) for name, (lead, _) in self._pairs.items()}
        for _, end in self._pairs.values():
            end.close()
        deadline_s = time.monotonic() + _PATIENCE_S
        with contextlib.suppress(LineClosed):  # one has ended: the others read end-of-file too
            seats = {name: _key(line, deadline_s) for name, line in lines.items()}
            for line in lines.values():
                line.send("keys", seats=seats)
        for line in lines.values():
            line.close()


def _key(line: Line, deadline_s: float) -> str:
    message = line.receive(max(0.0, deadline_s - time.monotonic()))
    if message is None:
        raise LineClosed("it did not introduce itself")
    public: str = message["public"]
    return public
