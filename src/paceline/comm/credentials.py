"""How a seat shows that it belongs to a run, and how it knows the others that do.

Without encryption a password is made for the run: whoever knows it is one of its seats, and seats
of a run trust each other. With encryption every seat has a pair of keys. It makes the pair itself,
and tells others the public half only.
"""

from __future__ import annotations

import dataclasses
import hmac
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, final

if TYPE_CHECKING:
    import zmq

    from paceline.comm.roster import Roster

_DOMAIN: Final = b"paceline"


class Credentials(ABC):
    """What one seat knows of itself and of the others. Nothing of it is ever written down."""

    prove_names: ClassVar[bool]
    """Whether a seat cannot pass for another seat of the run."""
    stranger_bytes: ClassVar[int]
    """How much a mailbox may have sent to somebody whom it has not let in yet."""

    def guard(self, mailbox: zmq.Socket[bytes]) -> None:
        """Have a mailbox ask all who connect to it; to be called before it is bound."""
        # Were the gate not there, ZeroMQ would let in everybody who speaks the right protocol.
        mailbox.zap_enforce_domain = True
        mailbox.zap_domain = _DOMAIN
        self._guard(mailbox)

    @abstractmethod
    def _guard(self, mailbox: zmq.Socket[bytes]) -> None: ...

    @abstractmethod
    def show(self, connecting: zmq.Socket[bytes], to: str) -> None:
        """Have a socket show them to the seat that it will be connected to."""

    @abstractmethod
    def following(self, roster: Roster) -> Credentials:
        """Give this seat's credentials among the seats of a newer roster."""

    @abstractmethod
    def name_of(self, mechanism: bytes, shown: Sequence[bytes]) -> bytes | None:
        """Name the seat that showed these credentials; None: it is a stranger."""


@final
@dataclass(frozen=True)
class Password(Credentials):
    """A secret that all seats of a run share. It travels as it is, as everything else then does."""

    prove_names: ClassVar[bool] = False
    stranger_bytes: ClassVar[int] = 64 + 16  # ZeroMQ's greeting, and that something was wrong

    name: str
    word: bytes = field(repr=False)

    def _guard(self, mailbox: zmq.Socket[bytes]) -> None:
        mailbox.plain_server = True

    def show(self, connecting: zmq.Socket[bytes], to: str) -> None:
        del to
        connecting.plain_username = self.name.encode()
        connecting.plain_password = self.word

    def following(self, roster: Roster) -> Credentials:
        del roster
        return self

    def name_of(self, mechanism: bytes, shown: Sequence[bytes]) -> bytes | None:
        if mechanism != b"PLAIN" or len(shown) != 2:
            return None
        name, word = shown
        return name if hmac.compare_digest(word, self.word) else None


def make_password() -> str:
    """Make one that nobody guesses."""
    return secrets.token_hex(32)


def keys_of(roster: Roster) -> dict[str, bytes]:
    """The public key of each seat that has one."""
    return {name: key.encode() for name, key in roster.keys.items()}


@final
@dataclass(frozen=True)
class Keys(Credentials):
    """A seat's own pair, and the public key of every seat, all in Z85."""

    prove_names: ClassVar[bool] = True
    stranger_bytes: ClassVar[int] = 64 + 16 + 170  # and a WELCOME, which anybody can ask for

    public: bytes
    secret: bytes = field(repr=False)
    seats: Mapping[str, bytes]

    def _guard(self, mailbox: zmq.Socket[bytes]) -> None:
        mailbox.curve_server = True
        self._wear(mailbox)

    def show(self, connecting: zmq.Socket[bytes], to: str) -> None:
        connecting.curve_serverkey = self.seats[to]
        self._wear(connecting)

    def following(self, roster: Roster) -> Credentials:
        return dataclasses.replace(self, seats=keys_of(roster))

    def _wear(self, made: zmq.Socket[bytes]) -> None:
        made.curve_publickey = self.public
        made.curve_secretkey = self.secret

    def name_of(self, mechanism: bytes, shown: Sequence[bytes]) -> bytes | None:
        from zmq.utils import z85

        if mechanism != b"CURVE" or len(shown) != 1:
            return None
        key = z85.encode(shown[0])
        return next((name.encode() for name, its in self.seats.items() if its == key), None)
