"""A seat's end of its line: what was said is kept until somebody asks for it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from paceline.comm.line import Line
from paceline.comm.monitor_words import Enter
from paceline.comm.roster import Roster, Seat
from paceline.comm.seat_line import SeatLine
from paceline.comm.words import Abort, Evaluate, Finish, Keep, Members, Saved, Start, Stop
from paceline.errors import Aborted
from tests.comm.lines import line_of_a_seat, tcp_line_of_a_seat

EVALUATING = Enter(phase="evaluating", moment_s=1.0)
TRAINING = Enter(phase="training", moment_s=2.0)


@pytest.fixture
def ends() -> Iterator[tuple[Line, SeatLine]]:
    driver, seat = line_of_a_seat()
    yield driver, seat
    driver.close()
    seat.close()


@pytest.fixture
def driver(ends: tuple[Line, SeatLine]) -> Line:
    return ends[0]


@pytest.fixture
def seat(ends: tuple[Line, SeatLine]) -> SeatLine:
    return ends[1]


def test_a_seat_waits_for_a_kind_and_keeps_the_others(driver: Line, seat: SeatLine):
    driver.send(EVALUATING)
    driver.send(Start(1.5))
    driver.send(TRAINING)
    assert seat.wait(Evaluate, Start) == Start(1.5)
    assert seat.wait(Enter) == EVALUATING
    assert seat.wait(Enter) == TRAINING


def test_a_seat_listens_to_whatever_comes(driver: Line, seat: SeatLine):
    assert seat.listen(0) is None
    driver.send(EVALUATING)
    driver.send(TRAINING)
    seat.poll()
    assert [seat.listen(1), seat.listen(1), seat.listen(0)] == [EVALUATING, TRAINING, None]


def test_stop_and_finish_are_remembered(driver: Line, seat: SeatLine):
    seat.poll()
    assert (seat.stop_wanted, seat.finished) == (False, False)
    driver.send(Stop())
    seat.poll()
    assert (seat.stop_wanted, seat.finished) == (True, False)
    driver.send(Finish())
    seat.poll()
    seat.poll()
    assert (seat.stop_wanted, seat.finished) == (True, True)
    assert seat.wait(Finish) == Finish()


def test_the_newest_roster_is_the_one_that_counts(driver: Line, seat: SeatLine):
    first = Roster.of([Seat("worker", 0, "node0"), Seat("worker", 1, "node0")])
    driver.send(Members(first))
    assert seat.roster() == first
    driver.send(Members(first.without("worker1")))
    assert seat.roster() == first
    seat.poll()
    assert seat.roster().workers == ("worker0",)
    assert seat.listen(0) is None


@pytest.mark.parametrize("how", ["poll", "wait", "listen", "roster"])
def test_an_abort_names_its_reason_however_the_seat_hears_of_it(
    driver: Line, seat: SeatLine, how: str
):
    driver.send(Abort("worker1 failed: ValueError: no"))
    ask = {
        "poll": seat.poll,
        "wait": lambda: seat.wait(Start),
        "listen": lambda: seat.listen(1),
        "roster": seat.roster,
    }
    with pytest.raises(Aborted, match=r"worker1 failed: ValueError: no"):
        ask[how]()


def test_a_seat_whose_driver_is_gone_is_told_so(driver: Line, seat: SeatLine):
    driver.close()
    for ask in (
        seat.poll,
        lambda: seat.wait(Start),
        lambda: seat.listen(1),
        lambda: seat.send(Saved()),
        lambda: seat.offer(Saved()),
    ):
        with pytest.raises(Aborted, match="the driver is gone"):
            ask()


@contextmanager
def polling(seat: SeatLine) -> Iterator[None]:
    """Poll in another thread, as those do that watch over messages."""
    is_over = threading.Event()

    def poll() -> None:
        with suppress(Aborted):
            while not is_over.is_set():
                seat.poll()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [line_of_a_seat, tcp_line_of_a_seat])
def test_one_waits_for_a_word_that_another_thread_takes(
    make: Callable[[], tuple[Line, SeatLine]],
):
    driver, seat = make()
    roster = Roster.of([Seat("worker", 0, "node0")])
    with closing(driver), closing(seat):
        with polling(seat):
            threading.Timer(0.01, driver.send, [Members(roster)]).start()
            assert seat.roster() == roster
            for number in range(300):
                driver.send(Start(number))
                assert seat.wait(Start) == Start(number)
        with polling(seat):
            threading.Timer(0.01, driver.send, [Abort("worker1 failed")]).start()
            with pytest.raises(Aborted, match="worker1 failed"):
                seat.wait(Start)


@pytest.mark.timeout(60)
def test_who_already_sleeps_hears_of_a_word_that_another_thread_took(driver: Line, seat: SeatLine):
    heard: list[Start] = []
    for number in range(200):
        waiter = threading.Thread(target=lambda: heard.append(seat.wait(Start)))
        waiter.start()
        driver.send(Start(number))
        seat.poll()  # it or the waiter is quicker
        waiter.join()
    assert heard == [Start(number) for number in range(200)]


def test_a_thread_acts_on_words_when_it_polls_and_is_given_again_what_it_could_not_do(
    driver: Line, seat: SeatLine
):
    asked: list[Keep] = []

    def act(word: Keep) -> bool:
        asked.append(word)
        return len(asked) > 1

    seat.heed(Keep, act)
    driver.send(Keep(what="snapshot"))
    other = threading.Thread(target=seat.poll)
    other.start()
    other.join()
    assert asked == []  # the state is not that thread's
    seat.poll()
    seat.poll()
    seat.poll()
    assert asked == [Keep(what="snapshot")] * 2
