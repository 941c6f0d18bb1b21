"""What does encryption take of the processor? CURVE of ZeroMQ, which messages use, beside TLS 1.3.

    python benchmarks/ciphers.py
    python benchmarks/ciphers.py --megabytes 1024 --frames 65536 262144 1048576

One process sends frames to another over loopback; both count their processor seconds, all threads
of theirs. In turns, so that a busy machine favours none; seconds per gigabyte of both ends
together, the median of the repetitions and their spread. What encryption adds is the line less the
plain one of the same kind. ZeroMQ encrypts on a thread of its own, TLS on the thread that sends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

import zmq
from tried import Failed, tried

from paceline.comm.certificates import derived_identity, trusting

WITHIN_MS = 120_000
DONE_WITHIN_S = 300
Acts = tuple[Callable[[], None], Callable[[], None]]
"""What the process that receives does, and what the one that sends does."""


def by_zmq(count: int, frame: int, *, encrypts: bool) -> Acts:
    keys = [zmq.curve_keypair() for _ in range(2)]
    folder = tempfile.mkdtemp(prefix="paceline-ciphers-")
    told = Path(folder) / "port"

    def own(made: zmq.Socket[bytes], number: int) -> zmq.Socket[bytes]:
        made.setsockopt(zmq.RCVTIMEO, WITHIN_MS)
        made.setsockopt(zmq.SNDTIMEO, WITHIN_MS)
        made.set_hwm(16)
        if encrypts:
            made.curve_publickey, made.curve_secretkey = keys[number]
        return made

    def receive() -> None:
        with zmq.Context() as context, own(context.socket(zmq.PULL), 0) as inbox:
            inbox.curve_server = encrypts
            port = inbox.bind_to_random_port("tcp://127.0.0.1")
            told.with_suffix(".new").write_text(str(port))
            told.with_suffix(".new").rename(told)
            for _ in range(count):
                inbox.recv(copy=False)

    def send() -> None:
        until_s = time.monotonic() + WITHIN_MS / 1e3
        while not told.exists():
            assert time.monotonic() < until_s, "nobody listens"
            time.sleep(0.01)
        values = memoryview(bytearray(os.urandom(frame)))
        with zmq.Context() as context, own(context.socket(zmq.PUSH), 1) as outbox:
            if encrypts:
                outbox.curve_serverkey = keys[0][0]
            outbox.connect(f"tcp://127.0.0.1:{told.read_text()}")
            for _ in range(count):
                outbox.send(values, copy=False)
        told.unlink()
        told.parent.rmdir()

    return receive, send


def by_socket(count: int, frame: int, *, encrypts: bool) -> Acts:
    listener = socket.create_server(("127.0.0.1", 0))
    own, certificate = derived_identity(bytes(32))

    def receive() -> None:
        connection, _ = listener.accept()
        with own.wrap_socket(connection, server_side=True) if encrypts else connection as end:
            values, left = memoryview(bytearray(frame)), count * frame
            while left:
                if not (taken := end.recv_into(values[: min(left, frame)])):
                    raise ConnectionError("the sender hung up")
                left -= taken

    def send() -> None:
        connection = socket.create_connection(listener.getsockname())
        values = memoryview(bytearray(os.urandom(frame)))
        with trusting(certificate).wrap_socket(connection) if encrypts else connection as end:
            for _ in range(count):
                end.sendall(values)

    return receive, send


WAYS = {
    "ZeroMQ plain": partial(by_zmq, encrypts=False),
    "ZeroMQ CURVE": partial(by_zmq, encrypts=True),
    "socket plain": partial(by_socket, encrypts=False),
    "socket TLS 1.3": partial(by_socket, encrypts=True),
}


Spent = tuple[float, float]
"""Processor seconds per gigabyte: of both processes, and of the threads that send and receive."""


def spent_by(way: Callable[..., Acts], total: int, frame: int) -> Spent:
    """Carry it out, and count the processor seconds of both ends."""
    acts = way(total // frame, frame)
    with contextlib.ExitStack() as stack:
        used = [stack.enter_context(_forked(each)) for each in acts]
        said = [each.read() for each in used]
    if not all(said):
        raise Failed(f"an end failed, as it says above, or took longer than {DONE_WITHIN_S} s")
    spent = [json.loads(each) for each in said]
    gigabytes = total // frame * frame / 1e9
    whole_s, own_s = (sum(each) / gigabytes for each in zip(*spent, strict=True))
    return whole_s, own_s


@contextlib.contextmanager
def _forked(act: Callable[[], None]) -> Iterator[IO[str]]:
    """Have a process do it, and say what it has spent to whoever reads what this gives."""
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        _act_and_leave(act, writer)
    os.close(writer)
    with os.fdopen(reader) as told:
        yield told
    os.waitpid(pid, 0)


def _act_and_leave(act: Callable[[], None], writer: int) -> NoReturn:
    try:
        signal.alarm(DONE_WITHIN_S)  # a timeout of its own would cost a system call per frame
        began_s, own_began_s = time.process_time(), time.thread_time()
        act()
        spent = time.process_time() - began_s, time.thread_time() - own_began_s
        os.write(writer, json.dumps(spent).encode())
    except BaseException:  # noqa: BLE001 - or it would go on as a second benchmark
        traceback.print_exc()
    finally:
        os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--frames", type=int, nargs="+", default=[1 << 16, 1 << 18, 1 << 20])
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    is_whole = True
    for frame in arguments.frames:
        found: dict[str, list[Spent]] = {name: [] for name in WAYS}
        for _ in range(arguments.repetitions):
            for name, way in WAYS.items():
                measure = partial(spent_by, way, arguments.megabytes * 1_000_000, frame)
                if (spent := tried(name, measure)) is not None:
                    found[name].append(spent)
        is_whole &= all(len(each) == arguments.repetitions for each in found.values())
        for name, measured in found.items():
            if measured:
                print(f"{name:15s} frames of {frame >> 10:5d} KiB: {_told(measured)}", flush=True)
    return 0 if is_whole else 1


def _told(spent: Sequence[Spent]) -> str:
    whole, own = zip(*spent, strict=True)
    spread = f"({min(whole):.2f} to {max(whole):.2f}, n={len(whole)})"
    middle, of_it = statistics.median(whole), statistics.median(own)
    return f"{middle:5.2f} CPU seconds per GB {spread}, {of_it:.2f} of it on the Python threads"


if __name__ == "__main__":
    sys.exit(main())
