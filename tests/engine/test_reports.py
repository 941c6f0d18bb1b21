"""Who is given up where seats cannot reach each other."""

import pytest

from paceline.engine.reports import Reports
from tests.engine.fakes import FakeClock


@pytest.mark.parametrize(
    ("pairs", "given_up"),
    [
        ([("worker0", "worker1")], "worker1"),
        ([("worker0", "worker1"), ("worker1", "worker0")], "worker1"),  # both ends say it
        ([("worker0", "worker1"), ("worker1", "worker2")], "worker1"),  # around a ring
        ([("worker2", "worker0"), ("worker1", "worker2")], "worker2"),
        ([("worker1", "server0"), ("server0", "worker1")], "worker1"),  # rather than a server
        ([("worker0", "server0"), ("worker1", "server0")], "server0"),  # which explains both
    ],
)
def test_the_seat_that_explains_the_most_reports_is_given_up(pairs, given_up: str):
    clock = FakeClock()
    reports = Reports(clock)
    for reporter, seat in pairs:
        reports.add(reporter, seat, "lost the connection to it")
    assert reports.settled() is None  # others may have something to say
    clock.now_s += 1.1
    found = reports.settled()
    assert found is not None
    assert found[0] == given_up


def test_who_was_struck_explains_what_is_said_of_it():
    clock = FakeClock()
    reports = Reports(clock)
    reports.add("worker1", "server0", "lost the connection to it")
    reports.add("worker2", "worker1", "lost the connection to it")
    clock.now_s += 1.1
    assert reports.settled() == ("worker1", "lost the connection to it")
    assert reports.settled(["server0"]) == ("server0", "lost the connection to it")


def test_a_seat_that_is_known_to_be_gone_explains_its_reports():
    clock = FakeClock()
    reports = Reports(clock)
    reports.add("worker0", "worker1", "lost")
    reports.forget("worker1")
    clock.now_s += 5
    assert reports.settled() is None
