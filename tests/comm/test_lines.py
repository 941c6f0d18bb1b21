"""What every line must do: whole words in order, and never a silent end."""

import math
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from paceline.comm.dialing import dial
from paceline.comm.line import Line, LineClosed
from paceline.comm.pair_line import PairLine
from paceline.comm.switchboard import Switchboard
from paceline.comm.vocabularies import FROM_WORKERS
from paceline.comm.words import Answered, Evaluated, Failed, Paused, Saved, Word

Ends = tuple[Line, Line]


def pair() -> Ends:
    first, second = (PairLine(end, hears=FROM_WORKERS) for end in PairLine.pair())
    return first, second


def tcp(host: str = "127.0.0.1") -> Ends:
    board = Switchboard(FROM_WORKERS, host)
    try:
        called = dial(board.invite("worker0"), FROM_WORKERS)
        answered = board.answered("worker0", timeout_s=5)
        assert answered is not None
        return answered, called
    finally:
        board.close()


def reversed_tcp() -> Ends:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    first, second = tcp("::1")
    return second, first


KINDS: dict[str, Callable[[], Ends]] = {"pair": pair, "tcp": tcp, "tcp, IPv6": reversed_tcp}


@pytest.fixture(params=KINDS)
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    first, second = KINDS[request.param]()
    yield first, second
    first.close()
    second.close()


def numbers(words: list[Word | None]) -> list[int]:
    return [word.value[0] for word in words if isinstance(word, Answered)]


def test_words_arrive_whole_and_in_order_both_ways(ends: Ends):
    first, second = ends
    for number in range(50):
        first.send(Answered([number, "é\n" * number]))
        second.send(Paused(number))
    for number in range(50):
        assert second.receive() == Answered([number, "é\n" * number])
        assert first.receive() == Paused(number)


def test_numbers_that_are_none_arrive_too(ends: Ends):
    ends[0].send(Evaluated({"loss": float("nan"), "rate": float("inf")}))
    word = ends[1].receive()
    assert isinstance(word, Evaluated)
    assert math.isnan(word.metrics["loss"])
    assert word.metrics["rate"] == float("inf")


def test_nothing_said_is_none(ends: Ends):
    assert ends[0].receive(timeout_s=0) is None
    assert ends[0].receive(timeout_s=0.0001) is None


def test_an_offer_to_one_who_does_not_read_never_waits_and_the_line_lives_on(ends: Ends):
    first, second = ends
    num_offers = 8000
    words = [Answered([number, "x" * 1000]) for number in range(num_offers)]  # more than it holds
    taken = [number for number, word in enumerate(words) if first.offer(word)]
    heard = []
    while (word := second.receive(timeout_s=0.1)) is not None:
        heard.append(word)
    assert first.offer(Paused(-1))
    while (word := second.receive(5)) != Paused(-1):  # between hosts there is a way to go
        assert word is not None
        heard.append(word)
    assert numbers(heard) == taken
    assert 0 < len(heard) < num_offers


def test_a_send_waits_until_there_is_room(ends: Ends):
    first, second = ends
    num_words = 2000

    def send_all() -> None:
        for number in range(num_words):
            first.send(Answered([number, "x" * 500]))

    sender = threading.Thread(target=send_all)
    sender.start()
    received = [second.receive() for _ in range(num_words)]
    sender.join()
    assert numbers(received) == list(range(num_words))


def test_the_end_of_the_other_is_noticed_after_its_last_words(ends: Ends):
    first, second = ends
    first.send(Failed("x"))
    first.close()
    assert second.receive() == Failed("x")
    for timeout_s in (None, 0, 1):
        with pytest.raises(LineClosed):
            second.receive(timeout_s)
    with pytest.raises(LineClosed):
        second.send(Saved())
    with pytest.raises(LineClosed):
        second.offer(Saved())


def test_the_last_words_of_one_who_did_not_listen_are_heard(ends: Ends):
    first, second = ends
    second.send(Saved())
    first.send(Failed("x"))
    first.send(Failed("y"))
    first.close()
    assert [second.receive(5), second.receive(5)] == [Failed("x"), Failed("y")]
    with pytest.raises(LineClosed):
        second.receive(5)


def test_a_word_that_would_be_cut_off_is_refused_and_the_line_lives_on(ends: Ends):
    with pytest.raises(OSError, match="more than the 131,072 that are read"):
        ends[0].send(Answered("x" * 140_000))
    ends[0].send(Saved())
    assert ends[1].receive(5) == Saved()


def test_one_who_is_finished_still_hears_the_other(ends: Ends):
    ends[0].finish()
    with pytest.raises(LineClosed):
        ends[1].receive(5)
    ends[1].send(Saved())
    assert ends[0].receive(5) == Saved()
    ends[1].close()
    ends[0].finish()  # of one who is gone nothing is wanted
    with pytest.raises(LineClosed):
        ends[0].receive(5)


def test_it_can_be_waited_on_beside_others_and_gives_all_that_came(ends: Ends):
    import select

    first, second = ends
    for number in range(5):
        first.send(Paused(number))
    poller = select.poll()
    poller.register(second.fileno(), select.POLLIN)
    heard: list[Word] = []
    while len(heard) < 5 and poller.poll(5000):
        while (word := second.receive(timeout_s=0)) is not None:
            heard.append(word)
    assert heard == [Paused(number) for number in range(5)]
    assert not poller.poll(50)
