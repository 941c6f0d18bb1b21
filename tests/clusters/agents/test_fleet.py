"""A fleet and its keepers without a process: what is known of a node that is lost."""

import time
from pathlib import Path

import pytest

from paceline.clusters.agents.crew import AgentsCrew
from paceline.clusters.agents.fleet import Agent, Fleet, Launch, awaited
from paceline.clusters.base import Departure, Job
from paceline.clusters.kept import KeptNode
from paceline.comm.keeper_words import FROM_KEEPERS, Arrived, KeeperReady
from paceline.comm.line import LineClosed
from paceline.comm.pair_line import PairLine
from paceline.comm.roster import Seat
from paceline.comm.switchboard import Switchboard
from paceline.comm.vocabularies import NOTHING
from paceline.errors import NodeMissing
from paceline.system.waiting import Deadline
from tests.engine.fakes import FakeLine


class Recorded(Launch):
    """A start that the test ends."""

    def __init__(self) -> None:
        self.why: str | None = None
        self.ended: list[str] = []

    def failure(self) -> str | None:
        return self.why

    def end(self) -> None:
        self.ended.append("in its own time")

    def end_lost(self) -> None:
        self.ended.append("at once")


@pytest.fixture
def line():
    made = FakeLine()
    yield made
    made.close()


def test_seats_that_are_given_up_with_their_node_are_not_waited_for(line):
    kept = KeptNode(line, ["worker0", "monitor0"], "it is gone")
    assert kept.give_up("no power") == [
        Departure("monitor0", "no power", is_final=True),
        Departure("worker0", "no power", is_final=True),
    ]
    assert kept.give_up("no power") == []


def test_a_node_that_is_lost_while_its_keeper_is_waited_for_is_not_waited_for_as_long():
    mine, its = PairLine.pair()
    kept, looks = KeptNode(PairLine(mine, hears=FROM_KEEPERS), ["worker0"], "it is gone"), []

    def is_lost() -> bool:
        looks.append("")
        return len(looks) == 2

    with its:
        assert not kept.is_gone(is_lost)
    kept.line.close()
    assert len(looks) == 2  # not asked again


def test_who_is_waited_for_last_has_not_called_within_the_time_of_all():
    board, deadline = Switchboard(NOTHING, "127.0.0.1"), Deadline(0.5)
    until_s = time.monotonic() + 0.1
    try:
        while time.monotonic() < until_s:  # another one took part of it
            time.sleep(0.01)
        with pytest.raises(NodeMissing, match=r"node2 \(c\): did not call .* within 0\.5 s"):
            awaited(board, "c", "node2 (c)", deadline, lambda: None)
    finally:
        board.close()


def test_a_node_that_was_lost_unnoticed_is_ended_at_once_too(line):
    fleet, start = Fleet(), Recorded()
    arrived = Arrived(pid=1, host="b", address="127.0.0.1", cores=1.0, versions={})
    board = Switchboard(NOTHING)
    fleet._launches["node0"], fleet.agents["node0"] = start, Agent(line, arrived, board)
    line.leave()
    fleet.close()
    board.close()
    assert start.ended[0] == "at once"


def test_the_start_of_a_lost_node_is_ended_at_once_and_first():
    fleet, starts = Fleet(), {"node0": Recorded(), "node1": Recorded()}
    fleet._launches.update(starts)
    assert not fleet.lost()
    starts["node1"].why = "ssh has ended"
    assert fleet.lost() == {"node1": "ssh has ended"}
    fleet.close()
    assert starts["node0"].ended == ["in its own time"]
    assert starts["node1"].ended[0] == "at once"


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ("ssh has lost it", r"node0 \(b\): ssh has lost it"),
        (None, r"node0 \(b\): its line has ended: reset"),
    ],
)
def test_a_node_that_is_lost_before_its_seats_are_started_is_named(known, told):
    start = Recorded()

    def hears_nothing(_word) -> None:
        start.why = known
        raise LineClosed("reset")

    fleet, line, board = Fleet(), FakeLine(hears_nothing), Switchboard(NOTHING)
    arrived = Arrived(pid=1, host="b", address="127.0.0.1", cores=1.0, versions={})
    fleet.labels["node0"], fleet._launches["node0"] = "node0 (b)", start
    fleet.agents["node0"] = Agent(line, arrived, board)
    job = Job(
        run_dir=Path(),
        run_key=bytes(16),
        entry="nothing:main",
        seats=[Seat("worker", 0, "node0")],
        threads=1,
    )
    try:
        with pytest.raises(NodeMissing, match=told):
            AgentsCrew(job, fleet, encrypts=True, let_go=fleet.close)
    finally:
        board.close()
        line.close()


@pytest.fixture
def crew():
    """One that is seated on two nodes, in whose start nothing is of interest."""
    made, fleet = AgentsCrew.__new__(AgentsCrew), Fleet()
    fleet.labels |= {"node0": "node0 (a)", "node1": "node1 (b)", "node2": "node2 (c)"}
    lines = {node: FakeLine() for node in ("node0", "node1")}
    nodes = {node: KeptNode(each, [], "it is gone") for node, each in lines.items()}
    made._fleet, made._nodes, made._left, made.pairs = fleet, nodes, [], ()
    yield made
    for each in lines.values():
        each.close()


def knows_clocks(crew, *unsure_s: float) -> None:
    for kept, each in zip(crew._nodes.values(), unsure_s, strict=True):
        kept.line.say(KeeperReady(1, 0.25, each))
    crew.departures()


def test_a_clock_that_is_known_badly_is_a_warning_with_how_far_it_may_be_off(crew):
    knows_clocks(crew, 0.4e-3, 3e-3)
    (told,) = crew.warnings
    assert told.startswith("the clock of node1 (b) is known to ± 3.0 ms only: ")
    assert [each.clock_uncertainty_s for each in crew.links] == [0.4e-3, 3e-3]


def test_clocks_that_are_known_to_a_millisecond_are_none(crew):
    knows_clocks(crew, 0.4e-3, 1e-3)
    assert not crew.warnings


def test_a_way_that_could_not_be_measured_is_a_warning_of_the_runs_that_use_it(crew):
    knows_clocks(crew, 0.0, 0.0)
    crew._fleet.pairs.problems |= {
        ("node0", "node1"): "[Errno 113] No route to host",
        ("node0", "node2"): "no answer",
    }
    (told,) = crew.warnings
    way = "the way between node0 (a) and node1 (b)"
    assert told == f"{way} could not be measured: [Errno 113] No route to host"


@pytest.mark.parametrize("hosts", ["ab", "aa"], ids=["two machines", "one machine"])
def test_a_node_that_others_would_look_for_on_themselves_is_refused(hosts, crew):
    line, board = FakeLine(), Switchboard(NOTHING)
    for index, address in enumerate(("10.0.0.1", "127.0.0.1")):
        word = Arrived(pid=1, host=hosts[index], address=address, cores=1.0, versions={})
        crew._fleet.agents[f"node{index}"] = Agent(line, word, board)
    crew._interface = None
    told = (
        r"node1 \(b\): it calls from 127\.0\.0\.1, where no other node finds it: cluster\.address"
    )
    try:
        if hosts == "aa":
            crew._refuse_loopback(["node0", "node1"])
        else:
            with pytest.raises(NodeMissing, match=told):
                crew._refuse_loopback(["node0", "node1"])
    finally:
        board.close()
        line.close()
