"""Encrypts what passes through something that others can read, for whoever has the same secret."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final, final

_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32


@final
class SecretDiffers(Exception):
    """Something was sealed with another secret, for another place, or was changed on its way."""


@final
@dataclass(frozen=True)
class Seal:
    """Encrypts what goes into a store, so that only the same secret opens it."""

    secret: str = field(repr=False)
    run_id: str
    purpose: str = "torchrun"

    def close(self, data: bytes, *, rank: int, key: str) -> bytes:
        """Seal what is put under a key of the store, for or by the process of a rank."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        return nonce + AESGCM(self._key(rank)).encrypt(nonce, data, key.encode())

    def open(self, sealed: bytes, *, rank: int, key: str) -> bytes:
        """Give what was sealed; raises `SecretDiffers`."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return AESGCM(self._key(rank)).decrypt(nonce, rest, key.encode())
        except (InvalidTag, ValueError) as error:
            raise SecretDiffers from error

    def _key(self, rank: int) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = f"paceline {self.purpose} rank {rank}".encode()
        made = HKDF(SHA256(), _KEY_BYTES, salt=self.run_id.encode(), info=info)
        return made.derive(self.secret.encode())
