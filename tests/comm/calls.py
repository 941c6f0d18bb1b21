"""Lines over TCP within this process, and those who disturb them."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

from paceline.comm import dialing
from paceline.comm.dialing import dial
from paceline.comm.invitation import Invitation
from paceline.comm.secure_socket import FrameKind, SecureSocket
from paceline.comm.switchboard import Switchboard
from paceline.comm.tcp_line import TcpLine
from paceline.comm.vocabularies import FROM_WORKERS, Vocabulary
from paceline.system.waiting import Deadline

PATIENCE_S = 30.0


def answered(board: Switchboard, who: str = "worker0") -> TcpLine:
    """The driver's end of the line to somebody who has called."""
    line = board.answered(who, PATIENCE_S)
    assert line is not None
    return line


@contextlib.contextmanager
def connected(
    via: Callable[[Invitation], Invitation] = lambda it: it,
    hears: Vocabulary = FROM_WORKERS,
    says: Vocabulary = FROM_WORKERS,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[TcpLine]]:
    """Both ends of a line: the driver's, and that of who called it, perhaps by a detour."""
    with contextlib.closing(Switchboard(says)) as board:
        called = dial(via(board.invite("worker0")), hears, clock=clock)
        ends = [answered(board), called]
        try:
            yield ends
        finally:
            for each in ends:
                each.close()


def let_in(board: Switchboard) -> SecureSocket:
    """Somebody who was invited, and may then send anything."""
    invitation = board.invite("rogue")
    end = dialing._connected(invitation, PATIENCE_S)
    dialing._introduce(end, invitation, Deadline(PATIENCE_S))
    end.put(FrameKind.READY)
    return end


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came"
        time.sleep(0.01)


class Relay:
    """Somebody on the way: passes bytes on, keeps them, and changes them if asked to."""

    def __init__(self, invitation: Invitation) -> None:
        self.seen = bytearray()
        self.damages = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._there = socket.create_connection((invitation.host, invitation.port))
        self._ends = [self._listener, self._there]
        self._threads = [threading.Thread(target=self._answer)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return self._listener.getsockname()[1]

    def _answer(self) -> None:
        here, _ = self._listener.accept()
        self._ends.append(here)
        for pair in ((here, self._there), (self._there, here)):
            self._threads.append(threading.Thread(target=self._pass_on, args=pair))
            self._threads[-1].start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := bytearray(source.recv(1 << 16)):
                self.seen += block
                if self.damages:
                    block[-1] ^= 1
                sink.sendall(block)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        """Wait until both ends have hung up."""
        for each in self._threads:
            each.join(PATIENCE_S)
        for each in self._ends:
            each.close()
