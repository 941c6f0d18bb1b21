"""Strangers at the door of a mailbox: what they can take of it, and that it stays open to seats."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator

import pytest
import torch
import zmq

from paceline.comm import wire
from paceline.comm.mailbox import make_mailbox
from paceline.comm.pair_line import PairLine
from paceline.comm.seat_line import SeatLine
from paceline.comm.ticket import Medium
from paceline.comm.zmq import ZmqChannel
from tests.comm.credentials import make_credentials
from tests.comm.lines import line_of_a_seat
from tests.comm.rosters import roster_at
from tests.hostile import zmtp

NAMES = ["worker0", "worker1", "server0"]
RUN = b"sixteen bytes!!!"
PATIENCE_S = 30.0
NOBODY = 65534


class Seats:
    """The seats of a run in this process."""

    def __init__(self, medium: Medium, *, encrypt: bool) -> None:
        self.mechanism = "CURVE" if encrypt else "PLAIN"
        self._mailboxes = {name: make_mailbox(medium, "127.0.0.1") for name in NAMES}
        self._addresses = {name: each.address for name, each in self._mailboxes.items()}
        self._credentials = make_credentials(NAMES, encrypt=encrypt)
        self._channels: dict[str, ZmqChannel] = {}
        self._ends: list[PairLine | SeatLine] = []
        self.address = self._addresses["server0"]
        self.server = self["server0"]

    def __getitem__(self, name: str) -> ZmqChannel:
        if name not in self._channels:
            mine, its = line_of_a_seat()
            self._ends += [mine, its]
            self._channels[name] = ZmqChannel(
                name,
                roster_at(self._addresses),
                RUN,
                its,
                credentials=self._credentials[name],
                listener=self._mailboxes[name].listener.detach(),
            )
        return self._channels[name]

    def knock(self) -> socket.socket:
        return zmtp.connect(self.address)

    def assert_heard(self, name: str = "worker0", tag: int = 7) -> None:
        self[name].send("server0", torch.ones(3), tag)
        message = self.server.receive()
        assert (message.sender, message.tag) == (name, tag)

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        for each in self._mailboxes.values():
            each.listener.close()
        for end in self._ends:
            end.close()


@pytest.fixture
def opened() -> Iterator[Callable[..., Seats]]:
    made = []

    def make(medium: Medium = "tcp", *, encrypt: bool = False) -> Seats:
        made.append(Seats(medium, encrypt=encrypt))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def seats(request: pytest.FixtureRequest, opened) -> Seats:
    return opened(encrypt=request.param)


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came"
        time.sleep(0.01)


def is_closed(end: socket.socket) -> bool:
    """Whether the other side has hung up, whatever it said before."""
    end.settimeout(0)
    try:
        while end.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def test_thousands_of_bad_handshakes_are_counted_and_end_nothing(seats: Seats):
    for _ in range(3000):
        with seats.knock() as stranger, contextlib.suppress(ConnectionError):
            stranger.sendall(b"\x16\x03\x01 not even ZeroMQ")
    seats.assert_heard()
    wait_until(lambda: seats.server.rejected == 3000)


def test_connections_that_show_nothing_are_closed_when_there_are_many(seats: Seats):
    seats.assert_heard("worker0", tag=1)  # connected before, and is not who has to go
    greeting = zmtp.greeting(seats.mechanism)
    strangers = [seats.knock() for _ in range(200)]
    try:
        for each in strangers[::2]:
            with contextlib.suppress(ConnectionError):
                each.sendall(greeting)
        wait_until(lambda: sum(map(is_closed, strangers)) >= 150)
        for tag in range(2, 40):
            seats.assert_heard("worker0", tag)
        seats.assert_heard("worker1")
        assert seats["worker0"]._connections.lost() is None
    finally:
        for each in strangers:
            each.close()
    # Those who are at the door while a seat is let in cannot be told apart from it.
    wait_until(lambda: 195 <= seats.server.rejected <= 200)


def test_a_stranger_cannot_make_a_seat_hold_more_than_a_part(seats: Seats):
    with seats.knock() as stranger:
        stranger.sendall(zmtp.greeting(seats.mechanism))
        stranger.sendall(zmtp.header(wire.MOST_PART_BYTES + 1, zmtp.COMMAND))
        wait_until(lambda: is_closed(stranger))
    wait_until(lambda: seats.server.rejected == 1)
    seats.assert_heard()


def forged(sender: str = "worker0") -> bytes:
    return wire.encode(wire.Kind(RUN, sender, "uint8", (4,)), 2**63, 9) + b"1234"


@pytest.mark.parametrize("medium", ["unix", "tcp"])
@pytest.mark.parametrize("shows", ["nothing", "a wrong word", "an old version"])
def test_a_forged_frame_is_not_taken_and_silences_nobody(shows: str, medium: Medium, opened):
    seats = opened(medium)
    words = {
        "nothing": zmtp.greeting("NULL") + zmtp.ready(),
        "a wrong word": zmtp.greeting("PLAIN") + zmtp.hello("worker0", b"open sesame"),
        "an old version": b"\x01\x00",
    }
    with seats.knock() as stranger, contextlib.suppress(ConnectionError):
        stranger.sendall(words[shows] + zmtp.part(forged()))
        wait_until(lambda: seats.server.rejected)
    seats.assert_heard("worker0")
    assert seats.server.dropped == 0


def send_for_ever(stranger: socket.socket, words: bytes) -> None:
    while True:
        stranger.sendall(words)


def test_a_message_without_end_is_not_collected(opened):
    seats = opened()
    with seats.knock() as stranger:
        stranger.sendall(zmtp.greeting("NULL") + zmtp.ready())
        with pytest.raises(ConnectionError):
            send_for_ever(stranger, zmtp.part(bytes(1000), zmtp.MORE) * 1000)
    wait_until(lambda: seats.server.rejected == 1)
    seats.assert_heard()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "encrypted"])
def test_another_user_of_the_machine_is_hung_up_on_at_a_unix_socket(encrypt: bool, opened):
    seats = opened("unix", encrypt=encrypt)
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.setuid(NOBODY)
            with seats.knock() as stranger:
                # A mailbox greets whoever it has let in front of it.
                code = 0 if stranger.recv(1) == b"" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    wait_until(lambda: seats.server.rejected == 1)
    seats.assert_heard()


def test_a_seat_of_another_run_is_turned_away(seats: Seats, opened):
    other = opened(encrypt=seats.mechanism == "CURVE")
    if seats.mechanism == "PLAIN":
        other._credentials = {
            name: type(each)(name, b"the word of another run")
            for name, each in other._credentials.items()
        }
    with zmq.Context() as context, context.socket(zmq.PUSH) as lost:
        lost.setsockopt(zmq.LINGER, 0)
        other._credentials["worker0"].show(lost, "server0")
        lost.connect(seats.address)
        lost.send(forged(), zmq.DONTWAIT)
        wait_until(lambda: seats.server.rejected)
    seats.assert_heard()
    assert seats.server.dropped == 0
