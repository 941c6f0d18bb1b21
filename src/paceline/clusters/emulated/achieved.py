"""What a link really carries, each way, found out by filling it for a moment."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from paceline.clusters.emulated.network import Node, NodeNetwork

# A stream needs a moment to fill the link, and the link one to use up what it may send at once.
_WARM_UP_S: Final = 0.05
_MEASURE_S: Final = 0.15
# A slow link carries lumps of half a burst: as many bursts at least, or a lump more would count.
_MEASURE_BURSTS: Final = 5
_TRIES: Final = 3
_CLOSE: Final = 0.03
_BLOCK_BYTES: Final = 1 << 17
# No more can have piled up in front of a reader that had no processor: it is more than a window.
_PILE_BYTES: Final = 8 << 20
# Of a full packet of 1514 bytes on a link, TCP's own are 66.
_FRAME_BYTES: Final = 1514
_PAYLOAD_BYTES: Final = 1448


@final
@dataclass(frozen=True)
class Achieved:
    """Bits a second that a link carried, headers included, which count on a real one too."""

    sent_bits_per_s: float
    received_bits_per_s: float


def measure(
    network: NodeNetwork, measure_s: float = _MEASURE_S, tries: int = _TRIES
) -> dict[str, Achieved]:
    """Measure every link, one after the other: together they could ask too much of the host."""
    nodes = network.nodes.items()
    return {name: _measure(network, node, measure_s, tries) for name, node in nodes}


def _measure(network: NodeNetwork, node: Node, measure_s: float, tries: int) -> Achieved:
    """One way after the other: acknowledgements of the one would take room from the other."""
    asked = node.bits_per_s
    time_s = max(measure_s, 8 * _MEASURE_BURSTS * node.burst_bytes / asked)

    def sent() -> float:
        inside, outside = _connected(network, node)
        return _rate(inside, outside, time_s)

    def received() -> float:
        inside, outside = _connected(network, node)
        return _rate(outside, inside, time_s)

    return Achieved(_best(sent, asked, tries), _best(received, asked, tries))


def _best(rate: Callable[[], float], asked: float, tries: int) -> float:
    """Measure again where it was not what was asked for: the host may have been busy."""
    rates: list[float] = []
    while len(rates) < tries:
        rates.append(rate())
        if abs(rates[-1] - asked) <= _CLOSE * asked:
            break
    return min(rates, key=lambda each: abs(each - asked))


def _connected(network: NodeNetwork, node: Node) -> tuple[socket.socket, socket.socket]:
    """Connect a socket in the node with one at the bridge."""
    with socket.create_server((network.address, 0)) as listener:
        with node.inside(network.hub):
            inside = socket.create_connection(listener.getsockname())
        outside, _ = listener.accept()
    return inside, outside


def _rate(source: socket.socket, sink: socket.socket, measure_s: float) -> float:
    """Send from one socket to the other as fast as it goes."""
    thread = threading.Thread(target=_pour, args=(source,))
    thread.start()
    with sink:
        block = bytearray(_BLOCK_BYTES)
        _, began_s = _take(sink, block, time.perf_counter() + _WARM_UP_S)
        num_bytes, ended_s = _take(sink, block, began_s + measure_s)
    thread.join()
    return 8 * num_bytes * _FRAME_BYTES / _PAYLOAD_BYTES / (ended_s - began_s)


def _pour(source: socket.socket) -> None:
    block = bytes(_BLOCK_BYTES)
    with source, contextlib.suppress(OSError):  # the other end has seen enough
        while True:
            source.send(block)


def _take(sink: socket.socket, block: bytearray, until_s: float) -> tuple[int, float]:
    """Read until it is time, and then what is there; returns how much it was, and when that was.

    While this thread had no processor, what the link carried piled up: it belongs to that time.
    """
    num_bytes = 0
    while time.perf_counter() < until_s:
        num_bytes += sink.recv_into(block)
    pile_bytes = 0
    with contextlib.suppress(BlockingIOError):
        while pile_bytes < _PILE_BYTES:
            pile_bytes += sink.recv_into(block, 0, socket.MSG_DONTWAIT)
    return num_bytes + pile_bytes, time.perf_counter()
