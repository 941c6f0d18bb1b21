"""What two nodes' way to each other carries, and how long it takes: found out by using it.

The driver has one of them open a door, and the other call there, twice: bytes go one way and then
the other. A caller shows that it knows the token that the driver gave to both; nothing but zeros
travels.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from paceline.clusters.site import at_interface
from paceline.comm.keeper_words import Expect, Expecting, Probe, Probed, Unprobed
from paceline.comm.words import Word
from paceline.system.waiting import Deadline

_PATIENCE_S: Final = 5.0
_NUM_TRIPS: Final = 16
# A stream needs some round trips to fill the way, and the way one to use up what it sends at once.
_WARM_UP_S: Final = 0.03
_MEASURE_S: Final = 0.07
_TRIPS_TO_FILL: Final = 8
_MOST_FILLING_S: Final = 0.5
_BLOCK_BYTES: Final = 1 << 17
_PROOF_BYTES: Final = 32
# Of a full packet of 1514 bytes on a link, TCP's own are 66.
_HEADERS: Final = 1514 / 1448


def expect(word: Expect, leading: str, say: Callable[[Word], None]) -> Word:
    """Open a door, say where it is, and be called there; gives what was found out.

    `leading` is the address of this node that leads to the driver.
    """
    try:
        chosen = None if word.interface is None else at_interface(word.interface, leading)
        address = leading if chosen is None else chosen.address
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.create_server((address, 0), family=family) as door:
            at = Expecting(token=word.token, address=address, port=door.getsockname()[1])
            say(at)
            return _answer(door, word.token, Deadline(_PATIENCE_S))
    except OSError as error:
        return Unprobed(token=word.token, reason=str(error))


def probe(word: Probe) -> Word:
    """Call another node; gives what was found out."""
    token = bytes.fromhex(word.token)
    try:
        with _called(word, token) as end:
            trip_s = _round_trip(end)
            _pour(end, _PATIENCE_S)  # until the other has seen enough
        with _called(word, token) as end:
            received = _rate(end, trip_s)
        return Probed(token=word.token, received=received, round_trip_s=trip_s)
    except OSError as error:
        return Unprobed(token=word.token, reason=str(error))


def _answer(door: socket.socket, token: str, deadline: Deadline) -> Word:
    """Be called twice: receive first, then send."""
    known = bytes.fromhex(token)
    with _caller(door, known, deadline) as end:
        trip_s = _echo(end)
        received = _rate(end, trip_s)
    with _caller(door, known, deadline) as end:
        _pour(end, _PATIENCE_S)
    return Probed(token=token, received=received, round_trip_s=trip_s)


def _caller(door: socket.socket, token: bytes, deadline: Deadline) -> socket.socket:
    """Give the first who calls and proves to know the token; others are sent away."""
    while left_s := deadline.left_s:
        door.settimeout(left_s)
        end, _ = door.accept()
        end.settimeout(min(left_s, 1.0))
        nonce = secrets.token_bytes(_PROOF_BYTES)
        with contextlib.suppress(OSError):
            end.sendall(nonce)
            if hmac.compare_digest(_read(end, _PROOF_BYTES), _proof(token, nonce)):
                end.settimeout(_PATIENCE_S)
                return end
        end.close()
    raise TimeoutError("no other node called")


def _called(word: Probe, token: bytes) -> socket.socket:
    end = socket.create_connection((word.address, word.port), _PATIENCE_S)
    try:
        end.sendall(_proof(token, _read(end, _PROOF_BYTES)))
    except OSError:
        end.close()
        raise
    return end


def _proof(token: bytes, nonce: bytes) -> bytes:
    return hmac.digest(token, nonce, "sha256")


def _read(end: socket.socket, num_bytes: int) -> bytes:
    data = b""
    while len(data) < num_bytes:
        if not (piece := end.recv(num_bytes - len(data))):
            raise ConnectionError("the other node hung up")
        data += piece
    return data


def _round_trip(end: socket.socket) -> float:
    """Say a little and hear it back; the median of several."""
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    trips_s = []
    for _ in range(_NUM_TRIPS):
        began_s = time.perf_counter()
        end.sendall(b".")
        _read(end, 1)
        trips_s.append(time.perf_counter() - began_s)
    return statistics.median(trips_s)


def _echo(end: socket.socket) -> float:
    """Answer round trips; what is between two of them is about one."""
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    moments_s = []
    for _ in range(_NUM_TRIPS):
        end.sendall(_read(end, 1))
        moments_s.append(time.perf_counter())
    between = [after - before for before, after in pairwise(moments_s)]
    return statistics.median(between)


def _rate(end: socket.socket, trip_s: float) -> float:
    """Receive as fast as it comes; bits per second, with the headers of packets."""
    filling_s = min(_MOST_FILLING_S, max(_WARM_UP_S, _TRIPS_TO_FILL * trip_s))
    block = bytearray(_BLOCK_BYTES)
    _, began_s = _take(end, block, time.perf_counter() + filling_s)
    num_bytes, ended_s = _take(end, block, began_s + _MEASURE_S)
    return 8 * num_bytes * _HEADERS / (ended_s - began_s)


def _take(end: socket.socket, block: bytearray, until_s: float) -> tuple[int, float]:
    """Read until it is time; returns how much it was, and when the last of it came."""
    num_bytes = 0
    while time.perf_counter() < until_s:
        if not (taken := end.recv_into(block)):
            raise ConnectionError("the other node hung up")
        num_bytes += taken
    return num_bytes, time.perf_counter()


def _pour(end: socket.socket, most_s: float) -> None:
    """Send until the other end has seen enough."""
    block, deadline = bytes(_BLOCK_BYTES), Deadline(most_s)
    with contextlib.suppress(OSError):
        while deadline.left_s:
            end.send(block)


def rounds(nodes: list[str]) -> list[list[tuple[str, str]]]:
    """Arrange all pairs in rounds in which no node is twice: a round goes on all at once."""
    seats: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    made = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        facing = zip(seats[:half], reversed(seats[half:]), strict=True)
        made.append([(one, other) for one, other in facing if one and other])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return made
