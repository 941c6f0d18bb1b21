"""The line between a seat and its driver: whole messages in order, and never a silent end."""

import math
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from paceline.comm.line import Line, LineClosed, SeatLine
from paceline.errors import Aborted


@pytest.fixture
def ends() -> Iterator[tuple[Line, Line]]:
    first, second = (Line(end) for end in Line.pair())
    yield first, second
    first.close()
    second.close()


@pytest.fixture
def driver(ends: tuple[Line, Line]) -> Line:
    return ends[0]


@pytest.fixture
def seat(ends: tuple[Line, Line]) -> SeatLine:
    return SeatLine(ends[1])


def test_messages_arrive_whole_and_in_order_both_ways(ends: tuple[Line, Line]):
    first, second = ends
    for number in range(50):
        first.send("status", number=number, text="é\n" * number)
        second.send("phase", number=-number)
    for number in range(50):
        assert second.receive() == {"kind": "status", "number": number, "text": "é\n" * number}
        assert first.receive() == {"kind": "phase", "number": -number}


def test_numbers_that_are_none_arrive_too(ends: tuple[Line, Line]):
    ends[0].send("status", loss=float("nan"), rate=float("inf"), steps=None)
    message = ends[1].receive()
    assert message is not None
    assert math.isnan(message["loss"])
    assert (message["rate"], message["steps"]) == (float("inf"), None)


def test_nothing_said_is_none(ends: tuple[Line, Line]):
    assert ends[0].receive(timeout_s=0) is None
    assert ends[0].receive(timeout_s=0.0001) is None


def test_an_offer_to_one_who_does_not_read_never_waits_and_the_line_lives_on(
    ends: tuple[Line, Line],
):
    first, second = ends
    num_offers = 5000
    for number in range(num_offers):  # far more than a socket holds
        first.offer("status", number=number, text="x" * 1000)
    heard = []
    while (message := second.receive(timeout_s=0)) is not None:
        heard.append(message["number"])
    assert heard == list(range(len(heard)))
    assert 0 < len(heard) < num_offers
    first.offer("status", number=-1)
    assert second.receive() == {"kind": "status", "number": -1}


def test_a_send_waits_until_there_is_room(ends: tuple[Line, Line]):
    first, second = ends
    num_messages = 2000

    def send_all() -> None:
        for number in range(num_messages):
            first.send("row", number=number, text="x" * 500)

    sender = threading.Thread(target=send_all)
    sender.start()
    received = [second.receive() for _ in range(num_messages)]
    sender.join()
    assert [message["number"] for message in received if message] == list(range(num_messages))


def test_the_end_of_the_other_is_noticed_after_its_last_words(ends: tuple[Line, Line]):
    first, second = ends
    first.send("failed", error="x")
    first.close()
    assert second.receive() == {"kind": "failed", "error": "x"}
    for timeout_s in (None, 0, 1):
        with pytest.raises(LineClosed):
            second.receive(timeout_s)
    with pytest.raises(LineClosed):
        second.send("status")
    with pytest.raises(LineClosed):
        second.offer("status")


def test_more_sockets_can_be_handed_over_than_fit_in_one_message(ends: tuple[Line, Line]):
    pairs = [socket.socketpair() for _ in range(300)]
    ends[0].hand_over("take", [mine for mine, _ in pairs], word="these")
    message, descriptors = ends[1].take_over()
    taken = [socket.socket(fileno=each) for each in descriptors]
    assert (message["kind"], message["word"]) == ("take", "these")
    try:
        for number, ((_, kept), got) in enumerate(zip(pairs, taken, strict=True)):
            kept.send(str(number).encode())
            assert got.recv(10) == str(number).encode()
        assert not any(os.get_inheritable(each.fileno()) for each in taken)
    finally:
        for each in (*taken, *(end for pair in pairs for end in pair)):
            each.close()


def test_whoever_waits_for_sockets_is_told_of_the_end(ends: tuple[Line, Line]):
    ends[0].close()
    with pytest.raises(LineClosed):
        ends[1].take_over()


def test_a_message_that_would_be_cut_off_is_refused_and_the_line_lives_on(ends: tuple[Line, Line]):
    with pytest.raises(OSError, match="more than the 131,072 that are read"):
        ends[0].send("long", text="x" * 140_000)
    ends[0].send("short")
    assert ends[1].receive(5) == {"kind": "short"}


def test_one_who_is_finished_still_hears_the_other(ends: tuple[Line, Line]):
    ends[0].finish()
    with pytest.raises(LineClosed):
        ends[1].receive(5)
    ends[1].send("farewell")
    assert ends[0].receive(5) == {"kind": "farewell"}
    ends[1].close()
    ends[0].finish()  # of one who is gone nothing is wanted
    with pytest.raises(LineClosed):
        ends[0].receive(5)


def test_a_line_with_a_high_descriptor_can_be_waited_on(ends: tuple[Line, Line]):
    if os.sysconf("SC_OPEN_MAX") <= 1500:
        pytest.skip("no descriptor beyond 1023 is allowed here")
    high = Line(socket.socket(fileno=os.dup2(ends[0].fileno(), 1500)))
    assert high.receive(timeout_s=0) is None
    ends[1].send("status")
    assert high.receive(timeout_s=1) == {"kind": "status"}
    high.close()


def test_a_seat_waits_for_a_kind_and_keeps_the_others(driver: Line, seat: SeatLine):
    driver.send("phase", number=1)
    driver.send("start", start_s=1.5)
    driver.send("phase", number=2)
    assert seat.wait("evaluate", "start") == {"kind": "start", "start_s": 1.5}
    assert seat.wait("phase")["number"] == 1
    assert seat.wait("phase")["number"] == 2


def test_a_seat_listens_to_whatever_comes(driver: Line, seat: SeatLine):
    assert seat.listen(0) is None
    driver.send("phase", number=1)
    driver.send("phase", number=2)
    seat.poll()
    assert [seat.listen(1), seat.listen(1), seat.listen(0)] == [
        {"kind": "phase", "number": 1},
        {"kind": "phase", "number": 2},
        None,
    ]


def test_stop_and_finish_are_remembered(driver: Line, seat: SeatLine):
    seat.poll()
    assert (seat.stop_wanted, seat.finished) == (False, False)
    driver.send("stop")
    seat.poll()
    assert (seat.stop_wanted, seat.finished) == (True, False)
    driver.send("finish")
    seat.poll()
    seat.poll()
    assert (seat.stop_wanted, seat.finished) == (True, True)
    assert seat.wait("finish") == {"kind": "finish"}


@pytest.mark.parametrize("how", ["poll", "wait", "listen"])
def test_an_abort_names_its_reason_however_the_seat_hears_of_it(
    driver: Line, seat: SeatLine, how: str
):
    driver.send("abort", reason="worker1 failed: ValueError: no")
    ask = {"poll": seat.poll, "wait": lambda: seat.wait("start"), "listen": lambda: seat.listen(1)}
    with pytest.raises(Aborted, match=r"worker1 failed: ValueError: no"):
        ask[how]()


def test_a_seat_whose_driver_is_gone_is_told_so(driver: Line, seat: SeatLine):
    driver.close()
    for ask in (
        seat.poll,
        lambda: seat.wait("start"),
        lambda: seat.listen(1),
        lambda: seat.send("status"),
        lambda: seat.offer("status"),
    ):
        with pytest.raises(Aborted, match="the driver is gone"):
            ask()
