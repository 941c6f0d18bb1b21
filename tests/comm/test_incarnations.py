"""A seat that is started again: it is reached where it is now, and nothing of before is taken."""

import time
from collections.abc import Callable, Iterator

import pytest
import torch

from paceline.comm import wire
from paceline.comm.zmq import ZmqChannel
from paceline.errors import PeerLost
from tests.comm.restarts import RUN, Run

NAMES = ("worker0", "worker1", "server0")
PATIENCE_S = 60.0


def seated(*, encrypt: bool) -> Iterator[Run]:
    made = Run(NAMES, encrypt=encrypt)
    yield made
    made.close()


@pytest.fixture
def plain() -> Iterator[Run]:
    yield from seated(encrypt=False)


@pytest.fixture
def encrypted() -> Iterator[Run]:
    yield from seated(encrypt=True)


@pytest.fixture(params=["plain", "encrypted"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.getfixturevalue(request.param)


def tags(channel: ZmqChannel, count: int) -> list[int]:
    return [channel.receive().tag for _ in range(count)]


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came"
        time.sleep(0.01)


def test_a_seat_that_is_started_again_is_reached_where_it_is_now(run: Run):
    worker = run["worker0"]
    outlet = worker.outlet("server0", torch.ones(2))
    outlet(1)
    worker.send("server0", torch.ones(20_000), 2)
    assert tags(run["server0"], 2) == [1, 2]
    run.end("server0")
    wait_until(worker.lost)
    server = run.start_again("server0")
    run.tell("worker0")
    worker._look()  # it does not name as lost who is there again
    outlet(3)
    worker.send("server0", torch.ones(20_000), 4)
    assert tags(server, 2) == [3, 4]
    server.send("worker0", torch.ones(2), 5)
    assert worker.receive().tag == 5
    assert (worker.dropped, server.dropped) == (0, 0)


def test_a_sender_that_was_started_again_counts_anew(run: Run):
    server = run["server0"]
    for tag in range(5):
        run["worker0"].send("server0", torch.ones(2), tag)
    assert tags(server, 5) == [*range(5)]
    run.end("worker0")
    worker = run.start_again("worker0")
    run.tell("server0")
    server._look(drain=True)
    worker.send("server0", torch.ones(2), 9)
    assert server.receive().tag == 9
    assert server.dropped == 0


def test_what_an_earlier_incarnation_sent_is_not_taken(run: Run):
    server, before, other = run["server0"], run["worker0"], run["worker1"]
    before.send("server0", torch.ones(2), 0)
    assert server.receive().tag == 0
    before.send("server0", torch.ones(2), 1)  # not read before it is started again
    worker = run.start_again("worker0")
    run.tell("server0")
    server._look(drain=True)
    before.send("server0", torch.ones(2), 2)  # it does not know that it was replaced
    worker.send("server0", torch.ones(2), 3)
    taken = []
    while server.dropped < 2 or 3 not in taken:
        other.send("server0", torch.ones(2), 4)
        taken.append(server.receive().tag)
    assert set(taken) <= {3, 4}
    assert taken.count(3) == 1


def test_a_later_incarnation_than_the_roster_knows_is_taken(plain: Run):
    """Its first message may come before the driver's word that it is there."""
    server = plain["server0"]
    plain["worker0"].send("server0", torch.ones(2), 1)
    assert server.receive().tag == 1
    again = plain.start_again("worker0")
    again.send("server0", torch.ones(2), 2)
    assert server.receive().tag == 2
    plain.tell("server0")
    server._look(drain=True)
    again.send("server0", torch.ones(2), 3)
    assert server.receive().tag == 3


def test_who_connects_before_its_key_is_known_is_let_in_later(encrypted: Run):
    server = encrypted["server0"]
    again = encrypted.start_again("worker0")
    again.send("server0", torch.ones(2), 2)
    wait_until(lambda: server.rejected)
    encrypted.tell("server0")
    server._look(drain=True)
    assert server.receive().tag == 2


def test_to_send_to_a_seat_that_left_names_it(run: Run):
    worker = run["worker0"]
    outlet = worker.outlet("server0", torch.ones(2))
    run.roster = run.roster.without("server0")
    run.tell("worker0")
    worker._look()
    for send in (outlet, lambda tag: worker.send("server0", torch.ones(2), tag)):
        with pytest.raises(PeerLost, match="server0 is gone: it has left the run"):
            send(1)
    run["server0"].send("worker0", torch.ones(2), 2)
    run["worker1"].send("worker0", torch.ones(2), 3)
    assert worker.receive().tag == 3


def test_a_frame_says_which_incarnation_sent_it():
    kind = wire.Kind(RUN, "worker0", "uint8", (1,), 3)
    head = wire.encode(kind, 0, 0)
    assert wire.decode(head, 1, RUN)[0].incarnation == 3
    assert wire.encode(kind._replace(incarnation=2), 0, 0) != head
