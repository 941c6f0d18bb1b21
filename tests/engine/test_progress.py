"""What the driver knows of a run's progress from the rows that its workers send."""

from dataclasses import replace

from paceline.comm.roster import Seat
from paceline.engine.progress import Newest
from tests.comm.rows import ROW

SEATS = {f"worker{index}": Seat("worker", index, "node0") for index in range(3)}


def test_who_came_later_is_as_far_as_the_others_were_and_its_own_steps():
    newest = Newest(SEATS, batch=10, is_replayed=False)
    for name in SEATS:
        newest.take_row(name, replace(ROW, worker_steps=500, samples=5000))
    newest.entered("worker1", 480)
    newest.take_row("worker1", replace(ROW, worker_steps=10, samples=100))
    assert newest.begins_at("worker2", {"worker0", "worker1"}, in_step=False) == 500
    assert newest.begins_at("worker1", {"worker0"}, in_step=False) == 490  # its own place
    assert newest.begins_at("worker1", {"worker0"}, in_step=True) == 500  # that of the others


def test_a_late_worker_begins_where_the_slowest_is():
    newest = Newest(SEATS, batch=10, is_replayed=False)
    for name, samples in (("worker0", 3000), ("worker1", 2000)):
        newest.take_row(name, replace(ROW, samples=samples))
    assert newest.begins_at("worker2", {"worker0", "worker1"}, in_step=False) == 200


def test_rows_are_lost_while_a_worker_is_away_and_no_longer():
    newest = Newest(SEATS, batch=10, is_replayed=False)
    for name in SEATS:
        newest.take_row(name, replace(ROW, samples=1000))
    newest.take_row("worker0", replace(ROW, samples=3000))
    assert newest.rows_lost(SEATS) == 0
    assert newest.rows_lost(["worker0"]) == 2 * 2000  # two are away
    newest.entered("worker1", 250)
    newest.take_row("worker1", replace(ROW, samples=500))
    assert newest.rows_lost(["worker0", "worker1"]) == 1500 + 2000
