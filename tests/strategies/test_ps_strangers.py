"""Strangers at the door of a real run: they are counted, and nothing that is learnt changes."""

import socket
import struct
import threading
from collections.abc import Iterator

import psutil
import pytest
import torch
import zmq

import paceline
from paceline.clusters.local import Local
from paceline.comm import wire
from paceline.comm.memory import MemoryChannel, boxes_for
from paceline.engine.progress import RunView
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.cuts import Chunk
from paceline.strategies.parameter_server.describe import PsSync
from paceline.strategies.parameter_server.link import PULL, ROWS
from paceline.strategies.parameter_server.message_server_link import MessageServerLink
from paceline.strategies.parameter_server.tags import PUSHED, pack
from paceline.testing import Moons
from paceline.testing.strategies import assert_parameters_close
from paceline.training.optim import Sgd
from paceline.training.replica import Replica
from tests.comm.lines import line_of_a_seat
from tests.comm.rosters import roster_of

QUIET = paceline.Record(tensorboard=False, monitor=False)
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x04\x19\x05READY\x0bSocket-Type" + struct.pack(">I", 4) + b"PUSH"
FRAMES = [
    [b"GET / HTTP/1.1\r\n"],
    [bytes(range(256)) * 4],
    [wire.encode(wire.Kind(b"another run's id", "worker0", "float32", (2,)), 0, 0), bytes(8)],
]


def spec_of(**how: bool) -> paceline.RunSpec:
    return paceline.RunSpec(
        workload=Moons(),
        strategy=PsSync(),
        cluster=Local(transport="zmq-tcp", **how),
        num_workers=2,
        worker_steps=3000,  # some seconds: time enough for strangers to come
        record=QUIET,
    )


def ports_of_seats() -> Iterator[int]:
    """Where the seats of the run that goes on in this process listen."""
    for process in psutil.Process().children(recursive=True):
        for each in process.net_connections(kind="tcp4"):
            if each.status == psutil.CONN_LISTEN:
                yield each.laddr.port


def knock(port: int) -> None:
    """Send bytes that are not even ZeroMQ's, then frames that are not of the run.

    In this order, since a socket of ZeroMQ's that was not let in lingers, and the run goes on.
    """
    too_long = b"\x02" + struct.pack(">Q", 1 << 62)
    for words in (b"\x16\x03\x01 not even ZeroMQ" * 10, GREETING + READY + too_long):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
            raw.sendall(words)
    with zmq.Context() as context, context.socket(zmq.PUSH) as stranger:
        stranger.setsockopt(zmq.LINGER, 1000)
        stranger.setsockopt(zmq.SNDTIMEO, 1000)
        stranger.connect(f"tcp://127.0.0.1:{port}")
        for parts in FRAMES:
            try:
                stranger.send_multipart(parts)
            except zmq.Again:  # it was not let in
                break


@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "encrypted"])
def test_strangers_are_counted_and_nothing_that_is_learnt_changes(encrypt, tmp_path):
    alone = paceline.run(spec_of(encrypt=encrypt), out=tmp_path)
    visits: list[threading.Thread] = []

    def watch(view: RunView) -> None:
        if view.phase == "training" and not visits:
            ports = sorted(set(ports_of_seats()))
            assert len(ports) == 3
            visits.extend(threading.Thread(target=knock, args=(port,)) for port in ports)
            for each in visits:
                each.start()

    visited = paceline.run(spec_of(encrypt=encrypt), out=tmp_path, watch=watch)
    for each in visits:
        each.join()
    assert visits
    assert_parameters_close(visited, alone, tolerance=0.0)
    for seat in (*visited.workers, *visited.servers):
        assert seat.rejected_peers >= 3  # ZeroMQ itself comes back a few times
        assert seat.dropped_frames == 0


@pytest.fixture
def server() -> Iterator[tuple[MessageServerLink, MemoryChannel]]:
    """A server of four float32 values in two chunks, and a worker's channel to it."""
    mine, line = line_of_a_seat()
    boxes = boxes_for(["worker0", "server0"])
    place = Place(
        name="server0",
        roster=roster_of("worker0", "server0"),
        replica=Replica(torch.nn.Linear(1, 2), torch.float32),
        optimizer=Sgd(),
        most_steps=None,
        open_channel=lambda: MemoryChannel("server0", boxes, line),
    )
    chunks = [Chunk(0, 0, 0, 2), Chunk(0, 1, 2, 4)]
    yield MessageServerLink(place, chunks), MemoryChannel("worker0", boxes, line)
    mine.close()
    line.close()


WRONG = {
    "shape": (torch.zeros(3), pack(0, 0, 0)),
    "two dimensions": (torch.zeros(1, 2), pack(0, 0, 0)),
    "dtype": (torch.zeros(2, dtype=torch.float64), pack(0, 0, 0)),
    "range": (torch.zeros(2), pack(0, 2, 0)),
    "far range": (torch.zeros(2), pack(0, 2**20 - 1, 0)),
    "values where none belong": (torch.zeros(2), pack(0, 0, PULL)),
    "rows of no table": (torch.zeros(2, dtype=torch.int64), pack(0, 0, ROWS)),
    "pushed rows of no table": (torch.zeros(2, dtype=torch.int64), pack(0, 0, ROWS | PUSHED)),
}


@pytest.mark.parametrize(("values", "tag"), WRONG.values(), ids=list(WRONG))
def test_a_push_that_does_not_fit_is_counted_and_the_server_lives_on(values, tag, server):
    link, worker = server
    worker.send("server0", values, tag)
    worker.send("server0", torch.ones(2), pack(0, 1, 0))
    arrival = next(link.arrivals())
    assert arrival.chunk.index == 1
    assert link._channel.dropped == 1
