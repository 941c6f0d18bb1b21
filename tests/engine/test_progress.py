"""What the driver knows of a run's progress from the rows that its workers send."""

from dataclasses import replace

from paceline.comm.roster import Seat
from paceline.engine.progress import Newest
from tests.comm.rows import ROW


def test_who_came_later_is_as_far_as_the_others_were_and_its_own_steps():
    seats = [Seat("worker", index, "node0") for index in range(3)]
    newest = Newest({each.name: each for each in seats}, is_replayed=False)
    for each in seats:
        newest.take_row(each.name, replace(ROW, worker_steps=500))
    newest.entered("worker1", 480)
    assert newest.num_done({"worker1"}) == 480
    newest.take_row("worker1", replace(ROW, worker_steps=10))
    assert newest.num_done({"worker0", "worker1"}) == 490
