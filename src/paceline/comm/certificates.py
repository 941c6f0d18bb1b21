"""The driver's key and certificate, made for one run and never in a file; and who trusts it."""

from __future__ import annotations

import datetime
import os
import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# It is good for as long as the driver lives, whatever the clocks of the machines say.
_FROM: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_UNTIL: Final = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


def make_identity() -> tuple[ssl.SSLContext, str]:
    """Make a key and its certificate: what the driver answers calls with, and the PEM to trust."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return _identity(ec.generate_private_key(ec.SECP256R1()))


def derived_identity(seed: bytes) -> tuple[ssl.SSLContext, str]:
    """Make the key and the certificate that 32 secret bytes stand for, the same ones every time."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return _identity(Ed25519PrivateKey.from_private_bytes(seed), serial=1)


def _identity(
    private: EllipticCurvePrivateKey | Ed25519PrivateKey, serial: int | None = None
) -> tuple[ssl.SSLContext, str]:
    key, certificate = _make_pair(private, serial)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # no call is resumed
    # OpenSSL reads keys from files only: this one has no name and is in memory.
    with os.fdopen(os.memfd_create("identity"), "wb") as file:
        file.write(key + certificate)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context, certificate.decode()


def trusting(certificate: str) -> ssl.SSLContext:
    """Trust one certificate and no other; names of hosts mean nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(cadata=certificate)
    return context


def _make_pair(
    key: EllipticCurvePrivateKey | Ed25519PrivateKey, serial: int | None
) -> tuple[bytes, bytes]:
    """Make a certificate signed with a private key; gives both in PEM.

    A signature of Ed25519 is the same every time, one of the other kind is not.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.x509.oid import NameOID

    number = serial or x509.random_serial_number()
    digest = None if isinstance(key, Ed25519PrivateKey) else hashes.SHA256()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a driver of paceline")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), number)
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, digest)
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret, certificate.public_bytes(pem)
