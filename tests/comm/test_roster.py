"""Who sits where: in the order of ranks, whatever the order in which they came."""

from paceline.comm.roster import Roster, Seat, Sitting

SEATS = [
    Seat("worker", 0, "node0"),
    Seat("worker", 1, "node1"),
    Seat("server", 0, "node0"),
    Seat("monitor", 0, "node0"),
    Seat("monitor", 1, "node1"),
]


def test_names_and_numbers():
    roster = Roster.of(SEATS)
    assert roster.workers == ("worker0", "worker1")
    assert roster.servers == ("server0",)
    assert (roster.num_workers, roster.num_servers) == (2, 1)
    assert roster.worker_nodes == {"worker0": "node0", "worker1": "node1"}
    assert roster.worker_numbers == (0, 1)
    assert roster.nodes == ("node0", "node1")
    assert roster.neighbours("node1") == ("worker1", "monitor1")
    assert roster.node_of("monitor1") == "node1"


def test_whoever_says_where_it_is_is_known_from_then_on():
    roster = Roster.of(SEATS)
    assert roster.addresses == {}
    for seat in reversed(SEATS[:3]):
        roster = roster.with_sitting(Sitting(seat=seat, address=f"at {seat.name}", key="k"))
    assert roster.workers == ("worker0", "worker1")
    assert roster.addresses == {name: f"at {name}" for name in ("worker0", "worker1", "server0")}
    assert set(roster.keys) == {"worker0", "worker1", "server0"}
    assert roster.epoch == 3


def test_a_seat_is_given_up_and_taken_again():
    roster = Roster.of(SEATS).without("worker0")
    assert roster.workers == ("worker1",)
    again = roster.with_sitting(Sitting(seat=SEATS[0], incarnation=1))
    assert again.workers == ("worker0", "worker1")
    assert again.by_name["worker0"].incarnation == 1
    assert again.epoch == 2


def test_ten_workers_are_in_the_order_of_their_numbers():
    roster = Roster.of([Seat("worker", index, "n") for index in reversed(range(12))])
    assert roster.workers == tuple(f"worker{index}" for index in range(12))


def test_a_roster_tells_since_when_there_are_these_workers():
    roster = Roster.of(SEATS)
    reached = roster.with_sitting(Sitting(seat=SEATS[0], address="there"))
    assert reached.without("monitor1").workers_since == reached.workers_since == 0
    newcomer = Sitting(seat=Seat("worker", 7, "node0"), incarnation=1)
    came = reached.with_sitting(newcomer)
    gone = came.without("worker7")
    assert (came.workers_since, gone.workers_since) == (came.epoch, gone.epoch)
    assert gone.workers == reached.workers
