"""Invitations for one node's eyes only: Ray's objects are seen by whoever reaches the cluster.

An actor makes a key pair and tells its public key. The driver seals the invitation for that key;
what passes through Ray is of no use to others.
"""

from __future__ import annotations

from typing import final

from paceline.clusters.agents.seal import Seal, SecretDiffers

_PURPOSE = "ray"


@final
class Recipient:
    """The one who can open what was sealed for its public key."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw().hex()

    def opened(self, sealed: str, index: int) -> str:
        """Give what was sealed for the node of an index; raises `SecretDiffers`."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        try:
            sender, data = bytes.fromhex(sealed[:64]), bytes.fromhex(sealed[64:])
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(sender))
        except ValueError as error:
            raise SecretDiffers from error
        seal = _seal(shared, sender.hex(), self.public)
        return seal.open(data, rank=index, key=_PURPOSE).decode()


def sealed_for(public: str, text: str, index: int) -> str:
    """Seal a text so that only the owner of a public key reads it; raises `ValueError`."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    private = X25519PrivateKey.generate()
    sender = private.public_key().public_bytes_raw().hex()
    shared = private.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(public)))
    seal = _seal(shared, sender, public)
    return sender + seal.close(text.encode(), rank=index, key=_PURPOSE).hex()


def _seal(shared: bytes, sender: str, recipient: str) -> Seal:
    return Seal(shared.hex(), f"{sender} to {recipient}", _PURPOSE)
