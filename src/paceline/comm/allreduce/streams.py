"""Connections of a ring's own, for large tensors: from each rank to the next, plain TCP.

What passes through a mailbox is read by a thread of ZeroMQ into memory of its own. Between seats
that do not encrypt, large tensors are received right where they are to be. Streams are agreed on
through the mailboxes, which let in nobody but seats of the run: each rank opens a door at a free
port of its own address, for no longer than this takes, and tells the rank before it the port and a
token made for that one connection. Who calls and does not show the token is turned away. Where any
rank cannot reach the next, all go on through their mailboxes.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import select
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from paceline.comm.allreduce.mail import Mail
from paceline.comm.allreduce.small_ring import different_tensors
from paceline.system.waiting import Deadline

if TYPE_CHECKING:
    from paceline.comm.base import Message

_TOKEN_BYTES: Final = 32
_OFFER: Final = struct.Struct(f"<H{_TOKEN_BYTES}s")
# The kernel answers a call, however busy the seat is: a call takes a round trip.
_CALL_S: Final = 3.0
# Whoever may come in has called before it is waited for.
_LET_IN_S: Final = 5.0
_LOOK_MS: Final = 50
# Where both ends are on one host, what is under way is to stay in the processor's cache: more makes
# every copy slower. Between hosts the kernel finds out how much the way holds.
_NEAR_SENDS_BYTES: Final = 1 << 19
_NEAR_RECEIVES_BYTES: Final = 1 << 20
_LIMITS: Final = Path("/proc/sys/net/core")
# More that have called and shown nothing are hung up on, the first first.
_MOST_WAITING: Final = 16


@final
@dataclass(frozen=True)
class Streams:
    """One end of each of a rank's two connections; neither blocks, and each goes one way."""

    outgoing: socket.socket
    incoming: socket.socket

    def close(self) -> None:
        """Idempotent. What was sent still arrives."""
        self.outgoing.close()
        self.incoming.close()


def are_possible(mail: Mail, names: Sequence[str]) -> bool:
    """Whether ranks may call each other beside their mailboxes: all know the same answer."""
    return all(mail.channel.plain_host(name) is not None for name in names)


def open_streams(
    rank: int, names: Sequence[str], mail: Mail, epoch: int, all_agree: Callable[[bool], bool]
) -> Streams | None:
    """Connect all ranks; all call this at once. None, for all, where any two did not meet.

    `all_agree` says whether something holds for all ranks.
    """
    with contextlib.ExitStack() as opened:
        door = opened.enter_context(_Door(_host(mail, names[rank])))
        offered = _exchange_offers(rank, names, mail, epoch, door.offer)
        outgoing = _call(_host(mail, names[(rank + 1) % len(names)]), offered, mail, epoch)
        if outgoing is not None:
            opened.enter_context(outgoing)
        if not all_agree(outgoing is not None) or outgoing is None:
            return None
        incoming = door.let_in(mail, epoch)
        if incoming is not None:
            opened.enter_context(incoming)
        if not all_agree(incoming is not None) or incoming is None:
            return None
        door.close()
        opened.pop_all()
        _keep_short(outgoing, socket.SO_SNDBUF, "wmem_max", _NEAR_SENDS_BYTES)
        _keep_short(incoming, socket.SO_RCVBUF, "rmem_max", _NEAR_RECEIVES_BYTES)
        return Streams(outgoing, incoming)


def _keep_short(made: socket.socket, option: int, limit: str, num_bytes: int) -> None:
    """Give a connection within this host a buffer of that size, where the kernel allows it."""
    is_near = made.getsockname()[0] == made.getpeername()[0]
    with contextlib.suppress(OSError, ValueError):
        if is_near and int((_LIMITS / limit).read_text()) >= num_bytes:
            made.setsockopt(socket.SOL_SOCKET, option, num_bytes)


def _host(mail: Mail, name: str) -> str:
    host = mail.channel.plain_host(name)
    assert host is not None, f"{name} is not to be called"
    return host


def _exchange_offers(
    rank: int, names: Sequence[str], mail: Mail, epoch: int, own: bytes
) -> tuple[int, bytes]:
    """Tell the rank before where to call, and hear it from the next one: port and token.

    The next one is told something too. Should it have a small tensor where this rank has a large
    one, it waits for a message of this rank, and learns of it by what comes.
    """
    import torch

    before, following = names[rank - 1], names[(rank + 1) % len(names)]
    mail.channel.send(before, torch.frombuffer(bytearray(own), dtype=torch.uint8), epoch)
    if before != following:
        mail.channel.send(following, torch.zeros(_OFFER.size, dtype=torch.uint8), epoch)
        _checked(mail.receive_from(before, epoch))
    port, token = _OFFER.unpack(_checked(mail.receive_from(following, epoch)).memory)
    return port, token


def _checked(message: Message) -> Message:
    if (message.shape, message.dtype) != ((_OFFER.size,), "uint8"):
        raise different_tensors(message, (_OFFER.size,), "uint8")
    return message


def _call(host: str, offered: tuple[int, bytes], mail: Mail, epoch: int) -> socket.socket | None:
    """Connect to a rank's door and show its token; None where it is not reached."""
    port, token = offered
    if not port:
        return None
    made = socket.socket(_family(host))
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(BlockingIOError):
            made.connect((host, port))
        if _is_connected(made, mail, epoch) and made.send(token) == len(token):
            return made
    except OSError:
        pass
    except BaseException:
        made.close()
        raise
    made.close()
    return None


def _is_connected(made: socket.socket, mail: Mail, epoch: int) -> bool:
    deadline = Deadline(_CALL_S)
    ready = select.poll()
    ready.register(made, select.POLLOUT)
    while not ready.poll(_LOOK_MS):
        mail.look(epoch)
        if not deadline.left_s:
            return False
    return made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _readable(sockets: Sequence[socket.socket]) -> list[socket.socket]:
    """Wait a little until any of them can be read; gives those that can."""
    poller = select.poll()  # select() itself cannot look at descriptors beyond 1023
    for each in sockets:
        poller.register(each, select.POLLIN)
    found = {descriptor for descriptor, _ in poller.poll(_LOOK_MS)}
    return [each for each in sockets if each.fileno() in found]


@final
class _Door:
    """Listens at a free port of a host until the one who was given its token has come."""

    def __init__(self, host: str) -> None:
        self._token = secrets.token_bytes(_TOKEN_BYTES)
        self._waiting: dict[socket.socket, bytearray] = {}
        self._listener: socket.socket | None = None
        self.offer = _OFFER.pack(0, self._token)
        with contextlib.suppress(OSError):  # then nobody is let in, and all go another way
            self._listener = socket.create_server((host, 0), family=_family(host), backlog=16)
            self._listener.setblocking(False)
            self.offer = _OFFER.pack(self._listener.getsockname()[1], self._token)

    def __enter__(self) -> _Door:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def let_in(self, mail: Mail, epoch: int) -> socket.socket | None:
        """Wait for who shows the token; None where nobody does in time."""
        deadline = Deadline(_LET_IN_S)
        while self._listener is not None and deadline.left_s:
            ready = _readable([self._listener, *self._waiting])
            if not ready:
                mail.look(epoch)
            for each in ready:
                if each is self._listener:
                    self._accept()
                elif each in self._waiting and self._has_shown(each):
                    return each
        return None

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):
            made, _ = self._listener.accept()
            made.setblocking(False)
            self._waiting[made] = bytearray()
        if len(self._waiting) > _MOST_WAITING:
            self._hang_up(next(iter(self._waiting)))

    def _has_shown(self, caller: socket.socket) -> bool:
        """Read more of what somebody shows: the token and no byte beyond it."""
        shown = self._waiting[caller]
        try:
            came = caller.recv(_TOKEN_BYTES - len(shown))
        except BlockingIOError:
            return False
        except OSError:
            came = b""
        shown += came
        if came and len(shown) < _TOKEN_BYTES:
            return False
        if hmac.compare_digest(bytes(shown), self._token):
            del self._waiting[caller]
            return True
        self._hang_up(caller)
        return False

    def _hang_up(self, caller: socket.socket) -> None:
        del self._waiting[caller]
        caller.close()

    def close(self) -> None:
        """Turn away whoever still waits; idempotent."""
        if self._listener is not None:
            self._listener.close()
        for caller in list(self._waiting):
            self._hang_up(caller)
