"""What a stranger can try against the mailboxes of a run, one kind per process, until it is ended.

python -m tests.hostile.attacks KIND MECHANISM ADDRESS...
"""

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle

from paceline.comm import wire
from tests.hostile import zmtp

NOBODY = 65534
HELD = 300


class Tally:
    """How many connections were made."""

    number = 0

    def knock(self, address: str) -> socket.socket:
        made = zmtp.connect(address)
        self.number += 1
        made.settimeout(2)
        return made


def handshakes(tally: Tally, mechanism: str, addresses: Sequence[str]) -> None:
    """Bad ones, as fast as they can be made."""
    words = [
        b"",
        b"\x16\x03\x01 not even ZeroMQ",
        b"\x01\x00 an old version",
        zmtp.greeting("NULL") + zmtp.ready(),
        zmtp.greeting(mechanism),
    ]
    for address, said in zip(cycle(addresses), cycle(words), strict=False):
        with contextlib.suppress(OSError), tally.knock(address) as stranger:
            stranger.sendall(said)


def passwords(tally: Tally, mechanism: str, addresses: Sequence[str]) -> None:
    """Wrong ones, and whatever is sent to those who know the right one."""
    del mechanism
    for number, address in enumerate(cycle(addresses)):
        with contextlib.suppress(OSError), tally.knock(address) as stranger:
            said = zmtp.hello("worker0", b"%d" % number)
            stranger.sendall(zmtp.greeting("PLAIN") + said + zmtp.part(forged()))
            stranger.recv(1 << 10)


def forged() -> bytes:
    return wire.encode(wire.Kind(bytes(16), "worker0", "uint8", (4,)), 2**63, 0) + b"1234"


def forgeries(tally: Tally, mechanism: str, addresses: Sequence[str]) -> None:
    """Frames in the name of a worker, and messages without an end."""
    del mechanism
    endless = zmtp.part(bytes(1 << 16), zmtp.MORE) * 16
    for address in cycle(addresses):
        with contextlib.suppress(OSError), tally.knock(address) as stranger:
            stranger.sendall(zmtp.greeting("NULL") + zmtp.ready() + zmtp.part(forged()))
            while True:
                stranger.sendall(endless)


def half_open(tally: Tally, mechanism: str, addresses: Sequence[str]) -> None:
    """Connections that say nothing, or only who they are not; as many as there may be."""
    held: list[socket.socket] = []
    for address in cycle(addresses):
        with contextlib.suppress(OSError):
            held.append(tally.knock(address))
            if len(held) % 2:
                held[-1].sendall(zmtp.greeting(mechanism))
        if len(held) >= HELD:
            held.pop(0).close()
            time.sleep(0.001)


def slow(tally: Tally, mechanism: str, addresses: Sequence[str]) -> None:
    """A greeting byte by byte, over some connections at a time."""
    while True:
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            held = [stack.enter_context(tally.knock(address)) for address in addresses]
            for byte in zmtp.greeting(mechanism):
                for each in held:
                    each.sendall(bytes([byte]))
                time.sleep(0.1)


def large(tally: Tally, mechanism: str, addresses: Sequence[str]) -> None:
    """Commands as large as they may be, before anything was shown, and larger ones."""
    sizes = [wire.MOST_PART_BYTES, 1 << 30]
    for address, size in zip(cycle(addresses), cycle(sizes), strict=False):
        with contextlib.suppress(OSError), tally.knock(address) as stranger:
            stranger.sendall(zmtp.greeting(mechanism) + zmtp.header(size, zmtp.COMMAND))
            stranger.sendall(bytes(wire.MOST_PART_BYTES - 1))  # and never the last byte
            time.sleep(0.2)


KINDS: dict[str, Callable[[Tally, str, Sequence[str]], None]] = {
    each.__name__: each for each in (handshakes, passwords, forgeries, half_open, slow, large)
}


def main() -> None:
    kind, mechanism, *addresses = sys.argv[1:]
    "localhost".encode("idna")  # which is imported when first used, and who is nobody may not
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    os.nice(5)  # an ordinary user may not go first either
    tally = Tally()

    def end(*_: object) -> None:
        # At once: what a handler raises is lost where it interrupts the end of an object.
        os.write(1, b"%d" % tally.number)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    KINDS[kind](tally, mechanism, addresses)


if __name__ == "__main__":
    main()
