"""Who is here: the roster, when it is sent, who has joined and who has left."""

from collections.abc import Iterator

import pytest

from paceline.comm.roster import Roster, Seat
from paceline.comm.words import Finish, Here, Members
from paceline.engine.attendance import Attendance
from paceline.engine.lines import Lines
from tests.engine.fakes import FakeLine

SEATS = [
    Seat("worker", 0, "node0"),
    Seat("worker", 1, "node1"),
    Seat("server", 0, "node1"),
    Seat("monitor", 0, "node1"),
]
NAMES = [seat.name for seat in SEATS]


class Hall:
    """An attendance, and what each seat was told."""

    def __init__(self) -> None:
        self.ends = {name: FakeLine() for name in NAMES}
        self.lines = Lines(self.ends)
        self.attendance = Attendance(SEATS, self.lines)

    def here(self, *names: str) -> None:
        for name in names:
            self.attendance.here(name, Here(pid=7, address=f"at-{name}", key=f"key-{name}"))

    def rosters(self, name: str) -> list[Roster]:
        return [word.roster for word in self.ends[name].told if isinstance(word, Members)]


@pytest.fixture
def hall() -> Iterator[Hall]:
    hall = Hall()
    yield hall
    for each in hall.ends.values():
        each.close()


def test_the_roster_is_sent_to_all_when_the_last_is_there(hall: Hall):
    hall.here(*NAMES[:-1])
    assert not any(hall.ends[name].told for name in NAMES)
    hall.here(NAMES[-1])
    for name in NAMES:
        (roster,) = hall.rosters(name)
        assert roster.addresses == {each: f"at-{each}" for each in NAMES}
        assert roster.keys == {each: f"key-{each}" for each in NAMES}
        assert roster.workers == ("worker0", "worker1")


def test_all_have_joined_when_each_has_said_so(hall: Hall):
    for name in reversed(NAMES):
        assert not hall.attendance.have_all_joined
        hall.attendance.joined(name, {})
    assert hall.attendance.have_all_joined
    assert hall.attendance.odd_one() is None


def test_seats_that_are_missing_are_named(hall: Hall):
    hall.attendance.joined("worker0", {})
    hall.attendance.joined("monitor0", {})
    assert hall.attendance.missing == {"worker1", "server0"}


def test_the_one_that_starts_from_other_values_is_named(hall: Hall):
    for name, value in zip(NAMES, (1, 2, 1), strict=False):
        hall.attendance.joined(name, {"weight": value})
    hall.attendance.joined("monitor0", {})
    seat, text = hall.attendance.odd_one() or ("", "")
    assert seat == "worker1"
    assert "'weight' differs from that of worker0" in text


def test_who_has_left_is_told_nothing_and_stays_on_the_roster(hall: Hall):
    hall.here(*NAMES)
    hall.attendance.left("worker0")
    assert hall.attendance.staying == ["monitor0", "server0", "worker1"]
    hall.lines.tell_all(Finish())
    assert Finish() not in hall.ends["worker0"].told
    assert Finish() in hall.ends["worker1"].told
    assert hall.attendance.roster.workers == ("worker0", "worker1")


def test_without_a_seat_the_others_have_a_new_roster(hall: Hall):
    hall.here(*NAMES)
    hall.attendance.give_up("worker0")
    assert hall.attendance.is_given_up("worker0")
    first, second = hall.rosters("server0")
    assert second.workers == ("worker1",)
    assert second.epoch == first.epoch + 1
    assert len(hall.rosters("worker0")) == 1


def test_giving_up_the_only_one_that_is_missing_completes_the_roster(hall: Hall):
    hall.here("worker0", "server0", "monitor0")
    hall.attendance.give_up("worker1")
    (roster,) = hall.rosters("worker0")
    assert roster.workers == ("worker0",)


def test_a_seat_that_is_started_again_is_on_the_roster_in_its_next_incarnation(hall: Hall):
    hall.here(*NAMES)
    before = hall.attendance.roster.by_name["worker1"]
    hall.attendance.give_up("worker1")
    again = FakeLine()
    hall.attendance.call_back(before.seat, again)
    assert "worker1" in hall.attendance.staying
    hall.here("worker1")
    first, without = hall.rosters("worker0")  # the others do not wait until it has joined
    assert without.workers == ("worker0",)
    (own,) = [word.roster for word in again.told if isinstance(word, Members)]
    assert own.workers == ("worker0", "worker1")
    assert own.epoch == without.epoch
    hall.attendance.enroll("worker1")
    *_, after = hall.rosters("worker0")
    assert after.epoch > without.epoch > first.epoch
    assert (before.incarnation, after.by_name["worker1"].incarnation) == (0, 1)
    assert [word.roster for word in again.told if isinstance(word, Members)] == [own, after]
    again.close()


def test_an_earlier_incarnation_is_known_as_past(hall: Hall):
    assert not hall.attendance.is_past("worker1", 0)
    seat = hall.attendance.roster.by_name["worker1"].seat
    hall.attendance.give_up("worker1")
    hall.attendance.call_back(seat, FakeLine())
    assert hall.attendance.is_past("worker1", 0)
    assert not hall.attendance.is_past("worker1", 1)


def test_a_monitor_is_told_the_processes_of_its_node(hall: Hall):
    hall.here(*NAMES)
    assert hall.attendance.pids_on("node1") == {"worker1": 7, "server0": 7}
