"""What the seats of a run show to each other, made all at once for tests."""

from collections.abc import Iterable

import zmq

from paceline.comm.credentials import Credentials, Keys, Password

WORD = b"the word of this run"


def make_keys(names: Iterable[str]) -> dict[str, Keys]:
    pairs = {name: zmq.curve_keypair() for name in names}
    seats = {name: public for name, (public, _) in pairs.items()}
    return {name: Keys(public, secret, seats) for name, (public, secret) in pairs.items()}


def make_credentials(names: Iterable[str], *, encrypt: bool = False) -> dict[str, Credentials]:
    return dict(make_keys(names)) if encrypt else {name: Password(name, WORD) for name in names}
