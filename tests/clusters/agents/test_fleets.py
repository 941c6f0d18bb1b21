"""Agents serve one run after the other; only those that are missing are started."""

import pytest

from paceline.clusters.agents.fleets import Fleets
from paceline.clusters.zygote import Zygote
from paceline.errors import NodeMissing
from tests.clusters.agents.apart import Joined, Joining


class Counting(Joining):
    """Says which agents were started."""

    def __init__(self, folder, address="127.0.0.1") -> None:
        super().__init__(folder, address)
        self.started: dict[str, Joined] = {}

    def start(self, node, invitation) -> Joined:
        assert node not in self.started
        self.started[node] = super().start(node, invitation)
        return self.started[node]


@pytest.fixture
def fleets():
    with Zygote() as zygote:
        assert zygote.shared(Fleets) is zygote.shared(Fleets)
        yield zygote.shared(Fleets)


def pids(fleet) -> dict[str, int]:
    return {node: agent.arrived.pid for node, agent in fleet.agents.items()}


def test_an_agent_that_is_there_is_not_started_again(fleets, tmp_path):
    launcher = Counting(tmp_path)
    alone = pids(fleets.of(["node0"], launcher, 60))
    both = pids(fleets.of(["node0", "node1"], launcher, 60))  # it would raise were it started twice
    assert both.items() > alone.items()
    assert pids(fleets.of(["node1"], launcher, 60)) == both


def test_all_end_with_the_zygote(tmp_path):
    launcher = Counting(tmp_path)
    with Zygote() as zygote:
        zygote.shared(Fleets).of(["node0", "node1"], launcher, 60)
    assert [each.process.returncode for each in launcher.started.values()] == [0, 0]


def test_a_fleet_that_lost_a_node_is_not_used_again(fleets, tmp_path):
    before = Counting(tmp_path)
    fleets.of(["node0", "node1"], before, 60)
    before.started["node1"].process.kill()
    before.started["node1"].process.wait()
    after = Counting(tmp_path)
    fleet = fleets.of(["node0", "node1"], after, 60)
    assert {*after.started} == {"node0", "node1"}
    assert not fleet.lost()
    assert before.started["node0"].process.poll() == 0


def test_agents_that_are_to_call_elsewhere_are_others(fleets, tmp_path):
    here = fleets.of(["node0"], Counting(tmp_path, "127.0.0.1"), 60)
    there = fleets.of(["node0"], Counting(tmp_path, "127.0.0.2"), 60)
    assert pids(here) != pids(there)
    assert not here.lost()


class Deaf(Joining):
    """A host on which nothing can be started."""

    def start(self, node, invitation) -> Joined:
        joined = super().start(node, invitation)
        if node == "node1":
            joined.process.kill()
        return joined


def test_whoever_came_is_sent_home_when_another_did_not(fleets, tmp_path):
    with pytest.raises(NodeMissing, match=r"node1 \(host-node1\): exit code -9"):
        fleets.of(["node0", "node1"], Deaf(tmp_path, "127.0.0.1"), 60)
    assert pids(fleets.of(["node0", "node1"], Counting(tmp_path), 60)).keys() == {"node0", "node1"}
