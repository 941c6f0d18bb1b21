"""ZeroMQ's protocol by hand, for those who do not keep to it."""

import socket
import struct

COMMAND, MORE, LONG = 4, 1, 2


def connect(address: str) -> socket.socket:
    """Connect to a mailbox as ZeroMQ writes its address."""
    medium, _, where = address.partition("://")
    if medium == "ipc":
        made = socket.socket(socket.AF_UNIX)
        try:
            made.settimeout(30)
            made.connect(b"\0" + where.removeprefix("@").encode())
        except OSError:
            made.close()
            raise
        return made
    host, _, port = where.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def greeting(mechanism: str) -> bytes:
    start = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00"
    return start + mechanism.encode().ljust(20, b"\0") + bytes(32)


def part(values: bytes, flags: int = 0) -> bytes:
    return header(len(values), flags) + values


def header(num_bytes: int, flags: int = 0) -> bytes:
    return bytes([flags | LONG]) + struct.pack(">Q", num_bytes)


def command(name: str, values: bytes) -> bytes:
    return part(bytes([len(name)]) + name.encode() + values, COMMAND)


def ready() -> bytes:
    return command("READY", b"\x0bSocket-Type" + struct.pack(">I", 4) + b"PUSH")


def hello(name: str, word: bytes) -> bytes:
    """What PLAIN asks for."""
    return command("HELLO", b"".join(bytes([len(each)]) + each for each in (name.encode(), word)))
