"""An all-reduce is formed again: somebody leaves, somebody comes back."""

import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from paceline.comm.allreduce.base import AllReduce
from paceline.comm.allreduce.choosing import Algorithm, Choice
from paceline.comm.allreduce.forming import Forming
from paceline.comm.allreduce.hierarchical import HierarchicalAllReduce
from paceline.comm.allreduce.mail import Mail
from paceline.comm.allreduce.ring import RingAllReduce
from paceline.comm.allreduce.shared import SharedAllReduce
from paceline.comm.base import Regrouped
from paceline.comm.host_memory import Host, close_holdings, make_holdings
from paceline.comm.memory import MemoryChannel, boxes_for
from paceline.comm.roster import Seat, Sitting
from paceline.comm.words import Abort
from paceline.errors import Aborted, PeerLost
from paceline.seats import parsed
from tests.comm.lines import line_of_a_seat
from tests.comm.restarts import Run

NAMES = ("worker0", "worker1", "worker2")
SIZES = (1, 7, 50_001, 400_003)  # of one path and the other, with some that cannot be cut equally


class Group:
    """Workers that reduce together, each in a thread."""

    def __init__(
        self, nodes: dict[str, str], *, shared: bool, algorithm: Algorithm = "ring"
    ) -> None:
        self.run = Run(nodes, nodes=nodes)
        self._algorithm: Algorithm = algorithm
        self._holdings = make_holdings(nodes) if shared else None
        self._formings = {name: self._forming(name, shared=shared) for name in nodes}
        self.formed: dict[str, AllReduce] = {}
        self._pool = ThreadPoolExecutor(len(nodes))

    def _forming(self, name: str, *, shared: bool) -> Forming:
        host = None
        if shared:
            neighbours = self.run.roster.neighbours(self.run.roster.node_of(name))
            holdings = {each: self._holdings[each] for each in neighbours}
            host = Host(name, holdings, self.run.lines[name])
        return Forming(
            name, open_channel=lambda: self.run[name], host=host, algorithm=self._algorithm
        )

    def form(self, room_bytes: int = 0) -> dict[str, AllReduce]:
        """Have all workers of the roster form."""
        roster = self.run.roster
        self.formed = {
            name: self._formings[name].form(roster, room_bytes=room_bytes)
            for name in roster.workers
        }
        return self.formed

    def each(self, work: Callable[[str], object], *names: str) -> list[object]:
        """Have workers do something at a time; returns what each came to."""
        made = [self._pool.submit(work, name) for name in names or self.formed]
        return [each.result(60) for each in made]

    def hashes(self) -> list[object]:
        """What reducing comes to, rounded: any other order of adding would show."""
        return self.each(lambda name: reduced(name, self.formed[name]))

    def end(self, name: str) -> None:
        """A worker's process ends, and the driver tells the others."""
        self.run.end(name)
        self.run.roster = self.run.roster.without(name)
        self.run.tell(*self.run.roster.workers)

    def start_again(self, name: str, incarnation: int = 1) -> None:
        self.run.start_again(name, incarnation)
        self._formings[name] = self._forming(name, shared=False)
        self.run.tell(*self.run.roster.workers)

    def close(self) -> None:
        self._pool.shutdown()
        self.run.close()
        close_holdings(self._holdings)


def reduced(name: str, all_reduce: AllReduce) -> list[int]:
    hashes = []
    for size in SIZES:
        chance = torch.Generator().manual_seed(parsed(name)[1])
        values = torch.randn(size, generator=chance)
        all_reduce.reduce(values, mean=True)
        hashes.append(zlib.crc32(values.numpy().data))
    return hashes


LAYOUTS = {
    "messages": (dict.fromkeys(NAMES, "node0"), False, RingAllReduce, RingAllReduce),
    "shared": (dict.fromkeys(NAMES, "node0"), True, SharedAllReduce, SharedAllReduce),
    "storeys": (
        {"worker0": "node0", "worker1": "node0", "worker2": "node1"},
        True,
        HierarchicalAllReduce,
        RingAllReduce,
    ),
}


@pytest.fixture
def make() -> Iterator[Callable[..., Group]]:
    made: list[Group] = []

    def making(nodes: dict[str, str], *, shared: bool, **options) -> Group:
        made.append(Group(nodes, shared=shared, **options))
        return made[-1]

    yield making
    for group in made:
        group.close()


@pytest.mark.timeout(90)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_it_is_formed_again_without_a_worker_and_with_it(layout, make):
    nodes, shared, first, second = layout
    group = make(nodes, shared=shared)
    assert {type(each) for each in group.form().values()} == {first}
    before = group.hashes()
    assert before[0] == before[1] == before[2]

    def wait_for_who_left(name: str) -> None:
        # The broken connection is noticed too, and may be first where the driver takes long.
        with pytest.raises((Regrouped, PeerLost)):
            reduced(name, group.formed[name])

    group.end("worker1")
    group.each(wait_for_who_left, "worker0", "worker2")
    assert {type(each) for each in group.form().values()} == {second}
    two = make({name: node for name, node in nodes.items() if name != "worker1"}, shared=shared)
    two.form()
    assert group.hashes() == two.hashes()

    group.start_again("worker1")
    assert {type(each) for each in group.form().values()} == {RingAllReduce}
    three = make(nodes, shared=False)
    three.form()
    assert group.hashes() == three.hashes()
    assert len(group.formed) == 3


@pytest.mark.timeout(90)
def test_auto_chooses_once_and_who_comes_later_is_given_the_choice(make, monkeypatch):
    first = Choice(algorithm="halving", round_trip_s=0.001, whole_s=0.5)
    chosen = [first, Choice(algorithm="ring", round_trip_s=1.0, whole_s=1.0)]
    measured: list[str] = []

    def choose(ring: AllReduce, num_bytes: int) -> Choice:
        measured.append(str(ring.rank))
        return chosen[len(measured) > len(NAMES)]

    monkeypatch.setattr("paceline.comm.allreduce.forming.choose", choose)
    nodes = {name: f"node{name}" for name in NAMES}
    group = make(nodes, shared=False, algorithm="auto")
    halving = make(nodes, shared=False, algorithm="halving")

    def formed(group: Group) -> list[object]:
        names = group.run.roster.workers
        each = group.each(lambda name: group._formings[name].form(group.run.roster), *names)
        group.formed = dict(zip(names, each, strict=True))
        return group.hashes()

    assert formed(group) == formed(halving)
    group.end("worker0")
    group.start_again("worker0")
    assert group._formings["worker0"].choice is None
    assert formed(group) == formed(halving)
    assert {group._formings[name].choice for name in NAMES} == {first}
    assert sorted(measured) == ["0", "1", "2"]

    for name in NAMES:  # of a run that is resumed
        group._formings[name].take(chosen[1])
    ring = make(nodes, shared=False)
    assert group.hashes() == formed(ring)
    assert group.hashes() != halving.hashes()


@pytest.mark.timeout(60)
def test_who_is_ahead_is_waited_for_and_nothing_it_sent_is_lost(make):
    """One forms again and sends at once, while another still waits in the formation before."""
    group = make(dict.fromkeys(NAMES, "node0"), shared=False)
    group.form()
    group.hashes()
    group.end("worker1")

    def again(name: str) -> list[int]:
        if name == "worker2":
            with pytest.raises((Regrouped, PeerLost)):
                reduced(name, group.formed[name])
        return reduced(name, group._formings[name].form(group.run.roster))

    once, other = group.each(again, "worker0", "worker2")
    assert once == other


@pytest.mark.timeout(60)
def test_who_was_started_again_is_reached_at_once(make):
    """To form is enough: the channels of the others have not looked since."""
    group = make(dict.fromkeys(NAMES, "node0"), shared=False)
    group.form()
    before = group.hashes()
    group.run.end("worker1")
    group.run.start_again("worker1")
    group._formings["worker1"] = group._forming("worker1", shared=False)
    group.form()
    assert group.hashes() == before


def test_members_that_are_the_same_again_form_again(make):
    group = make({"worker0": "node0", "worker1": "node1"}, shared=False)
    group.form()
    before = group.run.roster
    newcomer = Sitting(seat=Seat("worker", 2, "node0"), incarnation=1)
    after = before.with_sitting(newcomer).without("worker2")
    forming = group._formings["worker0"]
    assert after.workers == before.workers
    assert forming.has_changed(after)
    assert not forming.has_changed(before)
    forming.form(after)
    assert not forming.has_changed(after)


def test_messages_of_earlier_epochs_are_dropped_and_of_later_ones_kept():
    boxes = boxes_for(["worker0", "worker1"])
    driver, line = line_of_a_seat()
    mail = Mail(MemoryChannel("worker0", boxes, line))
    sender = MemoryChannel("worker1", boxes, line)
    for epoch in (3, 4, 4, 3, 6, 6):
        sender.send("worker0", torch.ones(2), epoch)
    assert mail.receive(4).tag == 4
    assert mail.channel.dropped == 1
    assert mail.receive(4).tag == 4
    with pytest.raises(Regrouped, match="worker1 is in epoch 6, this is 4"):
        mail.receive(4)
    with pytest.raises(Regrouped, match="this is 5"):
        mail.receive(5)
    assert [mail.receive(6).tag for _ in range(2)] == [6, 6]
    assert mail.channel.dropped == 2
    driver.close()
    line.close()


@pytest.mark.timeout(60)
def test_memory_that_was_allocated_is_of_its_formation(make):
    group = make(dict.fromkeys(NAMES, "node0"), shared=True)
    old = {
        name: each.allocate(200_000, torch.float32) for name, each in group.form(1 << 20).items()
    }
    for values in old.values():
        values.fill_(7.0)
    group.end("worker1")
    new = {
        name: each.allocate(200_000, torch.float32) for name, each in group.form(1 << 20).items()
    }
    for rank, values in enumerate(new.values()):
        values.fill_(rank + 1.0)
    group.each(lambda name: group.formed[name].reduce(new[name]))
    assert [set(values.tolist()) for values in new.values()] == [{3.0}, {3.0}]
    assert all(set(values.tolist()) == {7.0} for values in old.values())


@pytest.mark.timeout(60)
def test_a_run_that_cannot_go_on_still_ends_a_wait(make):
    group = make(dict.fromkeys(NAMES, "node0"), shared=True)
    group.form()
    group.run.drivers["worker0"].send(Abort("worker1 failed"))
    with pytest.raises(Aborted, match="worker1 failed"):
        reduced("worker0", group.formed["worker0"])


@pytest.mark.timeout(60)
def test_who_waits_for_others_does_something_meanwhile_on_its_own_thread(make):
    group = make(dict.fromkeys(NAMES[:2], "node0"), shared=True)
    group.form()
    group.hashes()
    called: list[int] = []
    has_waited = threading.Event()

    def meanwhile() -> None:
        called.append(threading.get_ident())
        has_waited.set()

    def reduce(name: str) -> int:
        if name == "worker0":
            group.formed[name].meanwhile = meanwhile
        else:
            assert has_waited.wait(30)
        values = torch.full((5,), 1.0 + NAMES.index(name))
        group.formed[name].reduce(values)
        assert values.tolist() == [3.0] * 5
        return threading.get_ident()

    first, _ = group.each(reduce)
    assert called == [first]
