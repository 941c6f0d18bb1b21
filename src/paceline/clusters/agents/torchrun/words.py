"""What the driver and a node tell each other through torchrun's store, sealed."""

from __future__ import annotations

import dataclasses
import json
import secrets
import socket
from dataclasses import dataclass
from typing import Final, Literal, final

from paceline.clusters.agents.seal import Seal, SecretDiffers
from paceline.reading import schema

_MOST_SHOWN: Final = 255
PULSE: Final = "paceline/pulse"
"""The key that the driver counts up, for as long as it is there."""

FAILED: Final = "paceline/failed"
"""The key that is there when some node has said why it cannot go on."""


@final
@dataclass(frozen=True, kw_only=True)
class Hello:
    """A node's first word. Host and number are not secret: they tell whose secret differs."""

    host: str
    number: str
    """Made anew by each process: what was meant for an earlier one of the same rank is not read."""
    address: str = ""
    """Which address of the node leads to the store."""


@final
@dataclass(frozen=True, kw_only=True)
class StoreWord:
    """From the driver to a node, or back when it cannot go on."""

    kind: Literal["welcome", "serve", "end"]
    host: str = ""
    """Where the driver is."""
    invitation: str = ""
    code: int = 0
    """The exit code, at the end."""
    reason: str = ""


def hello_key(rank: int) -> str:
    return f"paceline/hello/{rank}"


def word_key(rank: int, number: str, index: int) -> str:
    """Where the driver's words for a node are, one after the other."""
    return f"paceline/word/{rank}/{number}/{index}"


def failure_key(rank: int, number: str) -> str:
    """Where a node says why it cannot go on."""
    return f"paceline/failure/{rank}/{number}"


def new_hello(address: str) -> Hello:
    return Hello(host=socket.gethostname(), number=secrets.token_hex(16), address=address)


def sealed_hello(hello: Hello, seal: Seal, rank: int) -> bytes:
    """Write who it is in the clear, and the rest sealed together with that."""
    open_part = json.dumps({"host": hello.host, "number": hello.number})
    key = hello_key(rank) + open_part
    return open_part.encode() + b"\n" + seal.close(hello.address.encode(), rank=rank, key=key)


def opened_hello(data: bytes, seal: Seal, rank: int) -> Hello:
    """Read a hello; raises `SecretDiffers`. Until that is known, nothing of it is believed."""
    open_part, _, closed = data.partition(b"\n")
    key = hello_key(rank) + open_part.decode(errors="replace")
    address = seal.open(closed, rank=rank, key=key).decode()
    return dataclasses.replace(unproven_hello(data), address=address)


def unproven_hello(data: bytes) -> Hello:
    """Read who it says it is, whoever wrote it; raises `SecretDiffers` if it is no hello at all."""
    try:
        table = json.loads(data.partition(b"\n")[0])
        hello = schema.read(Hello, table, "hello", strict=True)
    except ValueError as error:
        raise SecretDiffers from error
    return dataclasses.replace(hello, host=hello.host[:_MOST_SHOWN])


def sealed_word(word: StoreWord, seal: Seal, rank: int, key: str) -> bytes:
    data = json.dumps(dataclasses.asdict(word)).encode()
    return seal.close(data, rank=rank, key=key)


def opened_word(data: bytes, seal: Seal, rank: int, key: str) -> StoreWord:
    """Read a word; raises `SecretDiffers`, or `ValueError` that names the field."""
    table = json.loads(seal.open(data, rank=rank, key=key))
    return schema.read(StoreWord, table, "word", strict=True)
