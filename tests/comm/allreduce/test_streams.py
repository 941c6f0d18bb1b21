"""Connections of a ring's own: who is let in, what ends a wait, and when all do without."""

import os
import secrets
import signal
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from paceline.comm.allreduce import streams
from paceline.comm.allreduce.base import AllReduce
from paceline.comm.allreduce.mail import Mail
from paceline.comm.allreduce.ring import RingAllReduce
from paceline.comm.base import Regrouped
from paceline.comm.words import Abort
from paceline.errors import Aborted, PeerLost
from paceline.testing.ranks import RankFailed, reduce_together
from tests.comm.restarts import Run

NAMES = ["worker0", "worker1", "worker2"]
LARGE = 500_001


def hash_of_large_sums(all_reduce: AllReduce) -> list[int]:
    hashes = []
    for size in (LARGE, 3_000_001):
        values = torch.randn(size, generator=torch.Generator().manual_seed(all_reduce.rank))
        all_reduce.reduce(values, mean=True)
        hashes.append(zlib.crc32(values.numpy().data))
    return hashes


@pytest.mark.parametrize("num_ranks", [2, 3, 5])
def test_the_sum_is_to_the_bit_that_of_mailboxes(num_ranks: int):
    streamed = reduce_together("ring-tcp", num_ranks, hash_of_large_sums)
    assert streamed == reduce_together("ring", num_ranks, hash_of_large_sums)


@pytest.fixture
def run() -> Iterator[Run]:
    made = Run(NAMES)
    yield made
    made.close()


def rings(run: Run, epoch: int = 0) -> list[RingAllReduce]:
    return [RingAllReduce(rank, NAMES, Mail(run[name]), epoch) for rank, name in enumerate(NAMES)]


def reduced(all_reduce: AllReduce, size: int = LARGE) -> torch.Tensor:
    values = torch.full((size,), float(all_reduce.rank + 1))
    all_reduce.reduce(values)
    return values


def all_reduced(made: list[RingAllReduce]) -> list[torch.Tensor]:
    with ThreadPoolExecutor(len(made)) as threads:
        return list(threads.map(reduced, made))


def test_where_a_rank_cannot_be_called_all_use_their_mailboxes(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A port that a firewall closes: whoever calls there is refused."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    offer = streams._OFFER.pack(port, secrets.token_bytes(32))
    first, lock = [True], threading.Lock()
    honest = streams._Door.__init__

    def opened(door: streams._Door, host: str) -> None:
        honest(door, host)
        with lock:
            if first.pop() if first else False:
                door.offer = offer

    monkeypatch.setattr(streams._Door, "__init__", opened)
    made = rings(run)
    for values in all_reduced(made):
        assert torch.equal(values, torch.full((LARGE,), 6.0))
    assert [each._streams for each in made] == [None] * 3
    assert caplog.text.count("mailboxes carry large tensors") == 3
    assert sum(run[name].sent_bytes for name in NAMES) > 2 * 2 * 4 * LARGE


class Stranger:
    """Has found a door, and calls there, again and again, with or without something to show."""

    def __init__(self, port: int, shown: bytes) -> None:
        self.sockets = []
        for _ in range(12):
            made = socket.create_connection(("127.0.0.1", port))
            made.sendall(shown)
            self.sockets.append(made)

    def close(self) -> None:
        for each in self.sockets:
            each.close()


@pytest.mark.parametrize("shown", [b"", b"short", bytes(32), b"far more than a token" * 100])
def test_strangers_at_a_door_are_turned_away(
    run: Run, monkeypatch: pytest.MonkeyPatch, shown: bytes
):
    strangers, honest = [], streams._Door.__init__

    def opened(door: streams._Door, host: str) -> None:
        honest(door, host)
        strangers.append(Stranger(struct.unpack_from("<H", door.offer)[0], shown))

    monkeypatch.setattr(streams._Door, "__init__", opened)
    made = rings(run)
    for values in all_reduced(made):
        assert torch.equal(values, torch.full((LARGE,), 6.0))
    assert all(each._streams is not None for each in made)
    for each in strangers:
        each.close()


def test_no_door_stays_open(run: Run):
    import psutil

    def listening() -> int:
        own = psutil.Process().net_connections("tcp")
        return sum(each.status == psutil.CONN_LISTEN for each in own)

    before = listening()
    all_reduced(rings(run))
    assert listening() == before


def test_what_is_encrypted_goes_through_mailboxes():
    run = Run(NAMES, encrypt=True)
    made = rings(run)
    all_reduced(made)
    assert [each._streams for each in made] == [None] * 3
    run.close()


@pytest.mark.timeout(60)
def test_a_wait_ends_when_the_driver_says_so(run: Run):
    made = rings(run)
    all_reduced(made)
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(reduced, made[0])  # the others do not come
        run.drivers["worker0"].send(Abort("worker2 was stopped"))
        with pytest.raises(Aborted, match="worker2 was stopped"):
            waits.result(30)


@pytest.mark.timeout(60)
def test_a_wait_ends_when_another_rank_is_in_a_later_formation(run: Run):
    mails = [Mail(run[name]) for name in NAMES]
    made = [RingAllReduce(rank, NAMES, mails[rank], 0) for rank in range(3)]
    all_reduced(made)
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(reduced, made[0])
        RingAllReduce(2, NAMES, mails[2], 1)
        run["worker2"].send("worker0", torch.ones(3), 1)
        with pytest.raises(Regrouped, match="worker2 is in epoch 1"):
            waits.result(30)


@pytest.mark.timeout(60)
def test_a_wait_ends_when_a_neighbour_is_gone(run: Run):
    made = rings(run)
    all_reduced(made)
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(reduced, made[0])
        run.end("worker2")
        with pytest.raises(PeerLost, match="worker2"):
            waits.result(30)


@pytest.mark.timeout(60)
def test_a_formation_after_another_has_connections_of_its_own(run: Run):
    mails = [Mail(run[name]) for name in NAMES]
    for epoch in range(3):
        made = [RingAllReduce(rank, NAMES, mails[rank], epoch) for rank in range(3)]
        for values in all_reduced(made):
            assert torch.equal(values, torch.full((LARGE,), 6.0))


@pytest.mark.timeout(60)
def test_a_rank_that_is_ahead_or_slow_is_no_error(run: Run, monkeypatch: pytest.MonkeyPatch):
    """What is left of an earlier formation says nothing of this one, however long it lies there."""
    monkeypatch.setattr("paceline.comm.allreduce.stream_ring.MOST_APART_S", 0.2)
    mails = [Mail(run[name]) for name in NAMES]
    all_reduced([RingAllReduce(rank, NAMES, mails[rank], 0) for rank in range(3)])
    run["worker2"].send("worker0", torch.ones(3), 0)
    run["worker1"].send("worker0", torch.ones(3), 1)
    with pytest.raises(Regrouped):  # which puts the other aside
        mails[0].receive_from("worker1", 0)
    made = [RingAllReduce(rank, NAMES, mails[rank], 1) for rank in range(3)]
    mails[0].receive_from("worker1", 1)
    all_reduced(made)
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(reduced, made[0])
        with pytest.raises(TimeoutError):
            first.result(1.0)
        later = [threads.submit(reduced, each) for each in made[1:]]
        for each in (first, *later):
            assert torch.equal(each.result(30), torch.full((LARGE,), 6.0))


def reduce_large_and_small(all_reduce: AllReduce) -> None:
    reduced(all_reduce)
    all_reduce.reduce(torch.ones(LARGE if all_reduce.rank != 1 else 30))


def reduce_small_at_first(all_reduce: AllReduce) -> None:
    all_reduce.reduce(torch.ones(LARGE if all_reduce.rank != 1 else 30))


def reduce_two_large_ones(all_reduce: AllReduce) -> None:
    reduced(all_reduce)
    all_reduce.reduce(torch.ones(LARGE + all_reduce.rank))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "body", [reduce_large_and_small, reduce_small_at_first, reduce_two_large_ones]
)
def test_ranks_that_reduce_different_tensors_are_told(body, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("paceline.comm.allreduce.stream_ring.MOST_APART_S", 1.0)
    with pytest.raises(RankFailed, match="ranks reduce different tensors"):
        reduce_together("ring-tcp", 3, body)


def die_between_pieces(all_reduce: AllReduce) -> None:
    for number in range(50):
        reduced(all_reduce, 2_000_000)
        if all_reduce.rank == 1 and number == 3:
            threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGKILL)).start()


@pytest.mark.timeout(120)
def test_a_rank_that_is_killed_amid_a_tensor_is_named():
    with pytest.raises(RankFailed, match="worker1 died"):
        reduce_together("ring-tcp", 3, die_between_pieces)
