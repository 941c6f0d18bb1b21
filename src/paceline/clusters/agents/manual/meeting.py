"""How the driver and a host that was joined by hand know each other: by a secret, and no more.

Both derive the driver's certificate and the host's token from it. So nothing but the secret has to
be carried from one to the other, and it never travels.
"""

from __future__ import annotations

import socket
from typing import Final

from paceline.comm.certificates import derived_identity
from paceline.comm.invitation import Invitation
from paceline.comm.switchboard import TOKEN_BYTES

PORT: Final = 2860
"""Where drivers listen, unless they say otherwise."""
WHY: Final = "anyone could join otherwise"


def seed_of(secret: str) -> bytes:
    """Derive what the driver's key is made from."""
    return _derived(secret, "certificate of the driver")


def token_of(secret: str, address: str) -> bytes:
    """Derive what the host at an address shows."""
    return _derived(secret, f"token of {address}")


def _derived(secret: str, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = f"paceline join, {purpose}".encode()
    return HKDF(SHA256(), TOKEN_BYTES, salt=None, info=info).derive(secret.encode())


def invitation_from(secret: str, host: str, port: int, address: str, who: str) -> Invitation:
    """Make, on a host, the invitation that the driver has in mind for it."""
    return Invitation(
        who=who,
        host=host,
        port=port,
        certificate=derived_identity(seed_of(secret))[1],
        token=token_of(secret, address).hex(),
    )


def who_at(address: str) -> str:
    """Name the agent of a host, as both sides know it."""
    return f"host {address}"


def numeric(host: str) -> str:
    """Give the address that a name stands for; raises `OSError`."""
    found: str = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]  # type: ignore[assignment]
    return found


def split_address(text: str) -> tuple[str, int | None]:
    """Read `HOST` or `HOST:PORT`, of IPv6 `[::1]:PORT`; raises `ValueError`."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text, ""
    host = host.removeprefix("[").removesuffix("]")
    is_bare = colon and not port and host != text
    if not host or is_bare or (port and not (port.isdecimal() and 0 < int(port) < 1 << 16)):
        raise ValueError(f"{text!r} is not of the form HOST or HOST:PORT")
    return host, int(port) if port else None
