"""A fleet and its keepers without a process: what is known of a node that is lost."""

import pytest

from paceline.clusters.agents.fleet import Fleet, Launch
from paceline.clusters.base import Departure
from paceline.clusters.kept import KeptNode
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


def test_the_start_of_a_lost_node_is_ended_at_once_and_first():
    fleet, starts = Fleet(), {"node0": Recorded(), "node1": Recorded()}
    fleet._launches.update(starts)
    assert not fleet.lost()
    starts["node1"].why = "ssh has ended"
    assert fleet.lost() == {"node1": "ssh has ended"}
    fleet.close()
    assert starts["node0"].ended == ["in its own time"]
    assert starts["node1"].ended[0] == "at once"
