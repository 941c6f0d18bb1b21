"""Who is let in, and what happens when somebody is gone."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

import pytest
import torch
import zmq

from paceline.comm import connections, wire
from paceline.comm.base import Finished
from paceline.comm.credentials import Credentials, Keys
from paceline.comm.words import Abort, Finish
from paceline.comm.zmq import ZmqChannel
from paceline.errors import Aborted, PeerLost
from tests.comm.credentials import WORD, make_credentials, make_keys
from tests.comm.lines import line_of_a_seat
from tests.comm.rosters import roster_at

NAMES = ["worker0", "worker1", "server0"]
RUN = b"sixteen bytes!!!"
PATIENCE_S = 90.0


def free_addresses() -> dict[str, str]:
    """Ports that were free a moment ago, for channels that bind by themselves."""
    with zmq.Context() as context:
        sockets = {name: context.socket(zmq.PULL) for name in NAMES}
        for each in sockets.values():
            each.bind("tcp://127.0.0.1:*")
        found = {name: each.last_endpoint.decode() for name, each in sockets.items()}
        for each in sockets.values():
            each.close()
    return found


@pytest.fixture
def addresses() -> dict[str, str]:
    return free_addresses()


@pytest.fixture
def keys() -> dict[str, Keys]:
    return make_keys(NAMES)


@pytest.fixture
def seat(addresses) -> Iterator[Callable[..., ZmqChannel]]:
    """Opens channels; each has its driver's end of the line as `driver`."""
    opened = []

    plain = make_credentials(NAMES)

    def open_seat(
        name: str, shown: Credentials | None = None, others: dict[str, str] = addresses
    ) -> ZmqChannel:
        mine, its = line_of_a_seat()
        shown = shown or plain[name]
        channel = ZmqChannel(name, roster_at(others), RUN, its, credentials=shown)
        channel.driver = mine
        opened.append((channel, mine, its))
        return channel

    yield open_seat
    for channel, mine, its in opened:
        channel.close()
        mine.close()
        its.close()


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came"
        time.sleep(0.01)


# Who is let in.


def no_key(stranger: "zmq.Socket[bytes]", server: bytes) -> None:
    """Talks to the server as if nothing were encrypted."""


def new_key(stranger: "zmq.Socket[bytes]", server: bytes) -> None:
    """Knows whom it talks to, and has a pair that nobody knows."""
    stranger.curve_serverkey = server
    stranger.curve_publickey, stranger.curve_secretkey = zmq.curve_keypair()


def key_of_another_run(stranger: "zmq.Socket[bytes]", server: bytes) -> None:
    theirs = make_keys(NAMES)["worker1"]
    stranger.curve_serverkey = server
    stranger.curve_publickey, stranger.curve_secretkey = theirs.public, theirs.secret


def all_keys_of_another_run(stranger: "zmq.Socket[bytes]", server: bytes) -> None:
    theirs = make_keys(NAMES)["worker1"]
    stranger.curve_serverkey = theirs.seats["server0"]
    stranger.curve_publickey, stranger.curve_secretkey = theirs.public, theirs.secret


def frame(sender: str = "worker1") -> bytes:
    return wire.encode(wire.Kind(RUN, sender, "uint8", (4,)), 0, 9) + b"1234"


@pytest.mark.parametrize("way", [no_key, new_key, key_of_another_run, all_keys_of_another_run])
def test_a_stranger_is_turned_away_and_counted_and_the_server_lives_on(way, seat, keys, addresses):
    server = seat("server0", keys["server0"])
    with zmq.Context() as context, context.socket(zmq.PUSH) as stranger:
        stranger.setsockopt(zmq.LINGER, 0)
        way(stranger, keys["server0"].public)
        stranger.connect(addresses["server0"])
        stranger.send(frame(), zmq.DONTWAIT)
        wait_until(lambda: server.rejected)
        seat("worker0", keys["worker0"]).send("server0", torch.ones(2), 5)
        message = server.receive()
    assert (message.sender, message.tag) == ("worker0", 5)
    assert server.dropped == 0


def test_a_seat_cannot_pass_for_another(seat, keys, addresses):
    server = seat("server0", keys["server0"])
    mine = keys["worker1"]
    with zmq.Context() as context, context.socket(zmq.PUSH) as liar:
        liar.setsockopt(zmq.LINGER, 0)
        liar.curve_serverkey = mine.seats["server0"]
        liar.curve_publickey, liar.curve_secretkey = mine.public, mine.secret
        liar.connect(addresses["server0"])
        liar.send(frame("worker0"))
        liar.send(frame("worker1"))
        message = server.receive()
    assert message.sender == "worker1"
    assert server.dropped == 1


def test_plain_and_encrypted_seats_do_not_understand_each_other(seat, keys):
    server = seat("server0", keys["server0"])
    seat("worker0").send("server0", torch.ones(2))
    wait_until(lambda: server.rejected)
    seat("worker1", keys["worker1"]).send("server0", torch.ones(2))
    assert server.receive().sender == "worker1"


@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "encrypted"])
def test_what_encrypted_seats_say_cannot_be_read_on_the_way(encrypt, seat, keys, addresses):
    text = b"the weights of a very private model, which nobody else is to see"
    mine = keys if encrypt else dict.fromkeys(NAMES)
    server = seat("server0", mine["server0"])
    with Tap(addresses["server0"]) as tap:
        worker = seat("worker0", mine["worker0"], addresses | {"server0": tap.address})
        worker.send("server0", torch.tensor(list(text), dtype=torch.uint8))
        assert bytes(server.receive().values.tolist()) == text
    assert (text in tap.heard) is not encrypt


class Tap:
    """Somebody on the way between two seats, who passes on what he hears."""

    def __init__(self, onward: str) -> None:
        self._onward = onward
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._ends: list[socket.socket] = []
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard = b""

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._ends):
            each.close()

    def _accept(self) -> None:
        host, _, port = self._onward.removeprefix("tcp://").partition(":")
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection((host, int(port)))
                self._ends += [near, far]
                for pair in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=self._pass_on, args=pair))
                    self._threads[-1].start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while said := source.recv(1 << 16):
                self.heard += said
                target.sendall(said)


def test_a_secret_is_not_shown(keys):
    mine = keys["worker0"]
    assert mine.secret.decode() not in repr(mine)
    assert len({each.secret for each in keys.values()}) == len(NAMES)


# Who is gone.

# Another process with a channel; without torch, which would take a second to import.
PEER = """
import json, sys
import zmq
from paceline.comm import connections, wire
from paceline.comm.credentials import Password
from paceline.comm.pair_line import PairLine
from paceline.comm.roster import Roster, Seat, Sitting
from paceline.comm.seat_line import SeatLine
from paceline.comm.vocabularies import FROM_DRIVER
from paceline.comm.zmq import ZmqChannel
addresses, run = json.loads(sys.argv[1]), sys.argv[2].encode()
mine, its = PairLine.pair()
line = SeatLine(PairLine(its, hears=FROM_DRIVER))
shown = Password("server0", sys.argv[3].encode())
roster = Roster(tuple(
    Sitting(seat=Seat(name[:-1], int(name[-1]), "node0"), address=address)
    for name, address in addresses.items()
))
channel = ZmqChannel("server0", roster, run, line, credentials=shown)
sender = channel.receive().sender
answer = wire.encode(wire.Kind(run, "server0", "uint8", (1,)), 0, 0) + b"!"
channel._outbox(sender).send(answer)
print("answered", flush=True)
sys.stdin.read()
channel.close()
"""


@pytest.fixture
def peer(addresses) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PEER, json.dumps(addresses), RUN.decode(), WORD.decode()]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as started:
        yield started
        started.kill()


def greet(worker: ZmqChannel, peer: subprocess.Popen[str]) -> None:
    worker.send("server0", torch.ones(2))
    assert worker.receive().sender == "server0"
    assert peer.stdout.readline() == "answered\n"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=str)
def test_a_peer_that_is_gone_or_silent_ends_a_wait_and_is_named(how, seat, peer):
    worker = seat("worker0")
    greet(worker, peer)
    peer.send_signal(how)
    with pytest.raises(PeerLost, match="server0 is gone: worker0 lost the connection") as caught:
        worker.receive()
    assert caught.value.seat == "server0"


def talk_for_ever(one: ZmqChannel, other: ZmqChannel) -> None:
    while True:
        one.send(other.name, torch.ones(2))
        other.receive()


def test_a_peer_that_is_gone_is_noticed_also_while_others_write(seat, peer):
    worker, other = seat("worker0"), seat("worker1")
    greet(worker, peer)
    peer.kill()
    with pytest.raises(PeerLost, match="server0 is gone"):
        talk_for_ever(other, worker)


def test_what_the_driver_knows_of_it_comes_first(seat, peer):
    worker = seat("worker0")
    greet(worker, peer)
    peer.kill()
    peer.wait()
    worker.driver.send(Abort("server0 failed: out of memory"))
    with pytest.raises(Aborted, match="out of memory"):
        worker.receive()


def test_a_peer_that_leaves_because_the_run_is_over_is_not_missed(seat, peer):
    worker = seat("worker0")
    greet(worker, peer)
    peer.stdin.close()
    peer.wait()
    worker.driver.send(Finish())
    with pytest.raises(Finished):
        worker.receive()


def test_a_peer_that_is_busy_is_not_gone(seat, peer):
    """Its threads answer while it does something else for longer than it may be silent."""
    worker = seat("worker0")
    greet(worker, peer)  # from here on it only waits for its standard input
    deadline_s = time.monotonic() + 3.5
    while time.monotonic() < deadline_s:
        worker._look(drain=True)
        time.sleep(0.05)
    peer.kill()
    with pytest.raises(PeerLost):
        worker.receive()


def test_a_pulse_that_is_never_felt_is_that_of_a_lost_peer(addresses, monkeypatch):
    """Where a host vanishes in the moment in which its pulse is first felt, nothing ever breaks."""
    monkeypatch.setattr(connections, "_FIRST_FELT_S", connections._GRACE_S + 0.2)
    with zmq.Context() as context:
        pulse = connections._Connection(context.socket(zmq.PUSH), is_pulse=True)
        pulse.socket.connect(addresses["server0"])  # nobody listens there
        assert not pulse.is_broken()
        deadline_s = time.monotonic() + PATIENCE_S
        while not pulse.is_broken():
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        pulse.abandon()
