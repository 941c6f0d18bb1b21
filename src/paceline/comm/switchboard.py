"""Where processes of a run call their driver: it listens, and lets in who was invited.

Who connects has shown nothing yet. All that strangers can cost before they are refused has a limit:
seconds to say who they are, bytes to say it in, and how many may be waiting. None is locked out for
what came from its address before: a stranger on a seat's own host would then lock out the seat.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, final

from paceline.comm import round_trips
from paceline.comm.certificates import derived_identity, make_identity
from paceline.comm.complaints import Complaints
from paceline.comm.dialing import LOOK_EVERY_S, NUM_TRIPS
from paceline.comm.invitation import Invitation
from paceline.comm.secure_socket import BadFrame, Frame, FrameKind, SecureSocket
from paceline.comm.tcp_line import TcpLine
from paceline.comm.vocabularies import Vocabulary

TOKEN_BYTES: Final = 32
MOST_WAITING: Final = 64
"""How many may have connected without having shown anything."""
INTRODUCTION_S: Final = 5.0
"""How long anyone has to do so."""
_COMPARING_S: Final = 30.0
"""How long one who was invited has to compare clocks."""
_QUEUED: Final = 256
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104

_log = logging.getLogger(__name__)


class CallRefused(Exception):
    """Somebody who is not let in, and why."""


@final
class Switchboard:
    """Answers calls in one thread, until it is closed. That thread also looks after its lines.

    Lines that it gave out live on without it.
    """

    def __init__(
        self,
        hears: Vocabulary,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        identity_seed: bytes | None = None,
        guests: Mapping[str, tuple[bytes, Vocabulary]] | None = None,
    ) -> None:
        """Listen at an address of this machine, of IPv4 or IPv6; port 0 is any that is free.

        The certificate is made anew, or from a secret that callers know too. `guests` are invited
        from the first moment on, each with what it is to show and what it may say: they know both
        already, and may be calling.
        """
        self.num_refused = 0
        made = make_identity() if identity_seed is None else derived_identity(identity_seed)
        self._context, self._certificate = made
        self._listener = _listening(host, port)
        self.host, self.port = self._listener.getsockname()[:2]
        self._tokens = {who: token for who, (token, _) in (guests or {}).items()}
        self._hears = hears
        self._own_words = {who: words for who, (_, words) in (guests or {}).items()}
        self._arrived: dict[str, TcpLine] = {}
        self._changed = threading.Condition()
        """Guards the three."""
        self._waiting: dict[SecureSocket, _Caller] = {}
        self._answered: list[TcpLine] = []
        self._complaints = Complaints(_log)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._is_open = True
        self._thread = threading.Thread(target=self._answer_calls, name="switchboard", daemon=True)
        self._thread.start()

    @property
    def listens_at(self) -> str:
        """Where it does, as a seat would say it of itself."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"

    def invite(
        self,
        who: str,
        host: str | None = None,
        hears: Vocabulary | None = None,
        token: bytes | None = None,
    ) -> Invitation:
        """Make an invitation for one call; one of the same name that was not used is withdrawn.

        `host` is where the caller reaches us, if that is not the address that we listen at;
        `hears`, what it may say, if not what others may; `token`, what it is to show, if it knows
        that already.
        """
        host = host or self.host
        if host in _EVERYWHERE:
            raise ValueError(f"host = {host!r}: name the address at which {who} reaches this one")
        token = token or secrets.token_bytes(TOKEN_BYTES)
        with self._changed:
            self._tokens[who], self._own_words[who] = token, hears or self._hears
        return Invitation(
            who=who,
            host=host,
            port=self.port,
            certificate=self._certificate,
            token=token.hex(),
        )

    def answered(self, who: str, timeout_s: float) -> TcpLine | None:
        """Wait for the line to somebody invited; None when the time is up. Given out once."""
        with self._changed:
            self._changed.wait_for(lambda: who in self._arrived, timeout_s)
            return self._arrived.pop(who, None)

    def close(self) -> None:
        """Answer no more calls. Idempotent."""
        if not self._is_open:
            return
        self._is_open = False
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._selector.close()
        os.close(self._wake)
        self._listener.close()
        for end in self._waiting:
            end.close()
        for line in self._arrived.values():
            line.close()

    def _answer_calls(self) -> None:
        looked_s = time.monotonic()
        while self._is_open:
            for key, _ in self._selector.select(LOOK_EVERY_S):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data is not None:
                    self._hear(key.data)
            if time.monotonic() >= looked_s + LOOK_EVERY_S:
                looked_s = time.monotonic()
                self._look_around(looked_s)

    def _look_around(self, now_s: float) -> None:
        """Send away who has taken too long, and hang up on hosts that are gone."""
        for caller in [each for each in self._waiting.values() if each.deadline_s <= now_s]:
            self._refuse(caller, "took too long to say who it is")
        self._answered = [each for each in self._answered if not each.hang_up_if_cut_off()]

    def _accept(self) -> None:
        try:
            plain, (address, *_) = self._listener.accept()
            caller = _Caller(SecureSocket(plain, self._context, answers=True), address)
        except OSError as error:  # it has gone again, or no more files can be opened
            self._count(f"a call could not be taken: {error}")
            time.sleep(0.01)  # the same would be tried again at once
            return
        self._waiting[caller.end] = caller
        self._selector.register(caller.end, selectors.EVENT_READ, caller)
        if len(self._waiting) > MOST_WAITING:
            self._refuse(self._most_crowding(), "was one of too many that said nothing")

    def _most_crowding(self) -> _Caller:
        """Who has waited the longest, of the address that most are waiting from."""
        callers = self._waiting.values()
        ((address, _),) = Counter(each.address for each in callers).most_common(1)
        return next(each for each in callers if each.address == address)

    def _hear(self, caller: _Caller) -> None:
        if caller.end not in self._waiting:
            return  # it was refused since it became readable
        try:
            who = caller.hear(self._owner)
        except (OSError, BadFrame, CallRefused) as error:
            self._refuse(caller, str(error))
            return
        if who is not None:
            self._let_in(caller, who)

    def _owner(self, token: bytes) -> str:
        """Who was given a token; it is of no use to anybody any more."""
        with self._changed:
            # All of them, so that the time it takes tells nothing.
            found = [w for w, each in self._tokens.items() if hmac.compare_digest(each, token)]
            if not found:
                raise CallRefused("showed a token that is unknown or was used before")
            del self._tokens[found[0]]
            return found[0]

    def _let_in(self, caller: _Caller, who: str) -> None:
        self._forget(caller)
        line = TcpLine(caller.end, self._own_words[who])
        self._answered.append(line)
        with self._changed:
            self._arrived[who] = line
            self._changed.notify_all()

    def _refuse(self, caller: _Caller, why: str) -> None:
        self._forget(caller)
        self._count(f"refused a call from {caller.address}: {why}")
        caller.end.close()

    def _forget(self, caller: _Caller) -> None:
        del self._waiting[caller.end]
        self._selector.unregister(caller.end)

    def _count(self, complaint: str) -> None:
        self.num_refused += 1
        self._complaints.add(complaint)


@final
class _Caller:
    """Somebody who has connected, and shows who it is; then it may ask for our clock."""

    def __init__(self, end: SecureSocket, address: str) -> None:
        self.end = end
        self.address = address
        self.deadline_s = time.monotonic() + INTRODUCTION_S
        self._who: str | None = None
        self._num_asked = 0

    def hear(self, owner: Callable[[bytes], str]) -> str | None:
        """Take one step of the introduction; gives who it is as soon as it is ready for words."""
        if not self.end.handshake():
            return None
        frame = self.end.take(most_bytes=TOKEN_BYTES)
        if frame is None:
            return None
        if self._who is None:
            self._welcome(frame, owner)
        elif frame.kind is FrameKind.READY:
            return self._who
        else:
            self._tell_clock(frame)
        return None

    def _welcome(self, frame: Frame, owner: Callable[[bytes], str]) -> None:
        if frame.kind is not FrameKind.TOKEN:
            raise BadFrame("a frame of another kind came before the token")
        self._who = owner(frame.content)
        self.deadline_s = time.monotonic() + _COMPARING_S
        self.end.put(FrameKind.WELCOME, self._who.encode())

    def _tell_clock(self, frame: Frame) -> None:
        self._num_asked += 1
        if frame.kind is not FrameKind.ASK or self._num_asked > NUM_TRIPS:
            raise BadFrame("a frame of another kind than those of an introduction")
        round_trips.answer(self.end, frame.content)


def _listening(host: str, port: int) -> socket.socket:
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_QUEUED)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener
