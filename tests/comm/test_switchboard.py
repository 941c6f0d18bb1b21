"""Who is let in by the driver's switchboard, and what those who are not can cost it."""

import contextlib
import dataclasses
import json
import logging
import random
import socket
import ssl
import struct
from collections.abc import Iterator

import pytest

from paceline.comm import switchboard
from paceline.comm.dialing import NUM_TRIPS, Unanswered, _connected, _introduce, dial
from paceline.comm.invitation import Invitation
from paceline.comm.secure_socket import FrameKind
from paceline.comm.switchboard import MOST_WAITING, Switchboard
from paceline.comm.tcp_line import TcpLine
from paceline.comm.vocabularies import FROM_DRIVER, FROM_WORKERS
from paceline.comm.words import Finish, Saved
from paceline.system.waiting import Deadline
from tests.comm.calls import PATIENCE_S, answered, wait_until


@pytest.fixture
def board() -> Iterator[Switchboard]:
    with contextlib.closing(Switchboard(FROM_WORKERS)) as made:
        yield made


class Good:
    """A line that must not be disturbed."""

    def __init__(self, board: Switchboard) -> None:
        self.seat = dial(board.invite("worker0"), FROM_DRIVER)
        self.driver = answered(board)

    def assert_undisturbed(self) -> None:
        self.seat.send(Saved())
        assert self.driver.receive(PATIENCE_S) == Saved()
        self.driver.send(Finish())
        assert self.seat.receive(PATIENCE_S) == Finish()


@pytest.fixture
def good(board: Switchboard) -> Iterator[Good]:
    made = Good(board)
    yield made
    made.assert_undisturbed()
    made.seat.close()
    made.driver.close()


def knock(board: Switchboard) -> socket.socket:
    return socket.create_connection((board.host, board.port), timeout=PATIENCE_S)


def assert_hung_up_on(end: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        while end.recv(1 << 16):
            pass


def test_an_invitation_travels_as_json_and_does_not_show_its_secret(board: Switchboard):
    invitation = board.invite("worker3", host="node7")
    text = invitation.written()
    assert "\n" not in text
    assert Invitation.read(text) == invitation
    assert (invitation.who, invitation.host, invitation.port) == ("worker3", "node7", board.port)
    assert invitation.token not in repr(invitation)
    assert "PRIVATE" not in text


def test_an_invitation_that_was_changed_is_named(board: Switchboard):
    table = json.loads(board.invite("worker3").written())
    with pytest.raises(ValueError, match="port"):
        Invitation.read(json.dumps({**table, "port": "many"}))
    for port in (0, 70_000):
        with pytest.raises(ValueError, match=f"port = {port}: not from 1 to 65535"):
            Invitation.read(json.dumps({**table, "port": port}))
    with pytest.raises(ValueError, match="token is not 64 digits"):
        Invitation.read(json.dumps({**table, "token": "open sesame"}))
    with pytest.raises(ValueError, match="guest"):
        Invitation.read(json.dumps({**table, "guest": "too"}))


def test_one_that_listens_everywhere_has_to_be_told_where_it_is_reached():
    with contextlib.closing(Switchboard(FROM_WORKERS, "0.0.0.0")) as board:
        with pytest.raises(ValueError, match="name the address at which worker0 reaches"):
            board.invite("worker0")
        assert board.invite("worker0", "127.0.0.1").host == "127.0.0.1"


def test_a_token_is_taken_once(board: Switchboard, good: Good):
    invitation = board.invite("worker1")
    line = dial(invitation, FROM_DRIVER)
    answered(board, "worker1").close()
    for _ in range(3):
        with pytest.raises(Unanswered, match="the invitation was used before, or withdrawn"):
            dial(invitation, FROM_DRIVER)
    assert board.num_refused == 3
    assert board.answered("worker1", timeout_s=0) is None
    line.close()


def test_a_second_invitation_withdraws_the_first(board: Switchboard, good: Good):
    first, second = board.invite("worker1"), board.invite("worker1")
    with pytest.raises(Unanswered, match="withdrawn"):
        dial(first, FROM_DRIVER)
    line = dial(second, FROM_DRIVER)
    answered(board, "worker1").close()
    line.close()


@pytest.mark.parametrize("token", ["", "00" * 31, "00" * 32])
def test_a_token_that_nobody_was_given_is_refused(board: Switchboard, good: Good, token: str):
    invitation = dataclasses.replace(board.invite("worker1"), token=token)
    with pytest.raises(Unanswered, match="it hung up"):
        dial(invitation, FROM_DRIVER)
    assert board.num_refused == 1


def test_a_caller_does_not_talk_to_another_driver(board: Switchboard, good: Good):
    with contextlib.closing(Switchboard(FROM_WORKERS)) as impostor:
        invitation = dataclasses.replace(board.invite("worker1"), port=impostor.port)
        with pytest.raises(Unanswered, match="its certificate is not the one of the invitation"):
            dial(invitation, FROM_DRIVER)
        wait_until(lambda: impostor.num_refused == 1)
        assert impostor.answered("worker1", timeout_s=0) is None
    line = dial(dataclasses.replace(invitation, port=board.port), FROM_DRIVER)  # still unused
    answered(board, "worker1").close()
    line.close()


def test_older_versions_of_tls_are_refused(board: Switchboard, good: Good):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with knock(board) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain)
    wait_until(lambda: board.num_refused == 1)


def test_a_driver_that_does_not_answer_is_named():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with contextlib.closing(Switchboard(FROM_WORKERS)) as board:
            invitation = dataclasses.replace(board.invite("worker1"), port=silent.getsockname()[1])
        with pytest.raises(Unanswered, match="did not answer in time"):
            dial(invitation, FROM_DRIVER, timeout_s=0.1)
    with pytest.raises(Unanswered, match=r"driver at 127\.0\.0\.1 port \d+: .*refused"):
        dial(invitation, FROM_DRIVER)


def test_one_who_says_nothing_is_dropped_and_keeps_nobody_waiting(board: Switchboard, monkeypatch):
    monkeypatch.setattr(switchboard, "INTRODUCTION_S", 0.1)
    with knock(board) as silent:
        wait_until(lambda: board._waiting)
        monkeypatch.undo()
        good = Good(board)
        assert_hung_up_on(silent)
        assert board.num_refused == 1
        good.assert_undisturbed()
        good.seat.close()
        good.driver.close()


def test_a_thousand_who_say_nothing_are_refused_counted_and_logged_a_few_times(
    board: Switchboard, good: Good, caplog
):
    with contextlib.ExitStack() as stack, caplog.at_level(logging.WARNING):
        silent = [stack.enter_context(knock(board)) for _ in range(1000)]
        late = Good(board)
        wait_until(lambda: board.num_refused >= 1000 - MOST_WAITING)
        assert_hung_up_on(silent[0])
        late.assert_undisturbed()
        late.seat.close()
        late.driver.close()
    wait_until(lambda: board.num_refused == 1000)
    assert 0 < len(caplog.records) < 20
    assert "one of too many that said nothing" in caplog.text


def hello(board: Switchboard) -> bytes:
    """What a caller sends first."""
    outgoing = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def damaged(words: bytes, chance: random.Random) -> bytes:
    """Random bytes, or those of a caller with some changed, some missing, or some added."""
    way = chance.randrange(4)
    if way == 0:
        return chance.randbytes(chance.randrange(1, 3000))
    if way == 1:
        return words[: chance.randrange(1, len(words))]
    if way == 2:
        return words + chance.randbytes(chance.randrange(1, 40_000))
    changed = bytearray(words)
    for _ in range(chance.randrange(1, 9)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def test_random_and_damaged_bytes_are_refused_and_counted(board: Switchboard, good: Good):
    chance = random.Random(18)
    num_strangers = 200
    for number in range(num_strangers):
        with knock(board) as stranger, contextlib.suppress(ConnectionError):
            stranger.sendall(damaged(hello(board), chance))
        if number % 50 == 0:
            good.assert_undisturbed()
    wait_until(lambda: board.num_refused == num_strangers)


@pytest.mark.parametrize(
    "plain",
    [
        struct.pack("!IB", 33, FrameKind.TOKEN) + bytes(33),
        struct.pack("!IB", 2**32 - 1, FrameKind.TOKEN),
        struct.pack("!IB", 16, FrameKind.WORD) + b'{"kind":"saved"}',
        struct.pack("!IB", 0, 99),
        struct.pack("!IB", 32, FrameKind.TOKEN) + bytes(7),
    ],
)
def test_frames_before_the_token_or_too_long_for_one_are_refused(
    board: Switchboard, good: Good, plain: bytes
):
    end = _connected(board.invite("worker1"), PATIENCE_S)
    wait_until(end.handshake)
    end._tls.write(plain)
    end.flush()
    end.close()
    wait_until(lambda: board.num_refused == 1)


def test_the_clock_is_told_a_few_times_before_a_line_is_ready(board: Switchboard, good: Good):
    invitation = board.invite("worker1")
    end = _connected(invitation, PATIENCE_S)
    _introduce(end, invitation, Deadline(PATIENCE_S))
    for _ in range(NUM_TRIPS + 1):
        end.put(FrameKind.ASK, bytes(8))
    wait_until(lambda: board.num_refused == 1)
    assert board.answered("worker1", timeout_s=0) is None
    end.close()


def test_of_too_many_those_go_whose_address_has_most(board: Switchboard):
    class Waiting:
        def __init__(self, address: str) -> None:
            self.address = address

    crowd = [Waiting("10.0.0.1"), *(Waiting("10.0.0.2") for _ in range(3)), Waiting("10.0.0.3")]
    board._waiting = dict(enumerate(crowd))
    assert board._most_crowding() is crowd[1]
    board._waiting = {}


def test_a_board_that_is_closed_hangs_up_on_who_waits_and_gave_lines_away_for_good():
    board = Switchboard(FROM_WORKERS)
    good = Good(board)
    unclaimed = dial(board.invite("worker1"), FROM_DRIVER)
    with knock(board) as silent:
        board.close()
        board.close()
        assert_hung_up_on(silent)
    good.assert_undisturbed()
    assert isinstance(good.driver, TcpLine)
    for line in (good.seat, good.driver, unclaimed):
        line.close()
