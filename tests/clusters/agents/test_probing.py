"""What two nodes' way to each other carries is measured, and nobody else can take part."""

import queue
import socket
import threading
from itertools import combinations

import pytest

from paceline.clusters.agents.fleets import Fleets
from paceline.clusters.agents.pairs import link_of
from paceline.clusters.agents.probing import expect, probe, rounds
from paceline.comm.keeper_words import Expect, Expecting, Probe, Probed, Unprobed
from tests.clusters.agents.apart import Joining

TOKEN = "ab" * 32
PATIENCE_S = 30


class Door:
    """A node that expects another, in a thread."""

    def __init__(self, leading="127.0.0.1", interface=None) -> None:
        self.said, self.found = queue.Queue(), queue.Queue()
        word = Expect(token=TOKEN, interface=interface)
        work = lambda: self.found.put(expect(word, leading, self.said.put))
        threading.Thread(target=work, daemon=True).start()

    def where(self) -> Expecting:
        return self.said.get(timeout=PATIENCE_S)

    def result(self):
        return self.found.get(timeout=PATIENCE_S)


@pytest.mark.parametrize("leading", ["127.0.0.1", "::1"])
def test_both_ways_are_measured(leading):
    door = Door(leading)
    at = door.where()
    assert at.address == leading
    there = probe(Probe(token=TOKEN, address=at.address, port=at.port))
    for each in (there, door.result()):
        assert isinstance(each, Probed), each
        assert each.received > 0
        assert each.round_trip_s > 0


def test_a_stranger_is_sent_away_and_disturbs_nothing():
    door = Door()
    at = door.where()
    with socket.create_connection((at.address, at.port), PATIENCE_S) as stranger:
        stranger.recv(32)
        stranger.sendall(bytes(32))
        assert stranger.recv(1) == b""
    wrong = probe(Probe(token="cd" * 32, address=at.address, port=at.port))
    assert isinstance(wrong, Unprobed)
    assert isinstance(probe(Probe(token=TOKEN, address=at.address, port=at.port)), Probed)
    assert isinstance(door.result(), Probed)


def test_what_cannot_be_reached_is_an_answer_too():
    door = Door(interface="none-of-that-name")
    told = door.result()
    assert isinstance(told, Unprobed)
    assert "none-of-that-name" in told.reason
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert isinstance(probe(Probe(token=TOKEN, address="127.0.0.1", port=port)), Unprobed)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_all_pairs_have_their_turn_and_no_node_two_at_once(count):
    nodes = [f"node{index}" for index in range(count)]
    made = rounds(nodes)
    for each in made:
        busy = [node for pair in each for node in pair]
        assert len(busy) == len(set(busy))
    pairs = [frozenset(pair) for each in made for pair in each]
    assert sorted(map(sorted, pairs)) == sorted(map(sorted, combinations(nodes, 2)))


def test_a_fleet_measures_each_pair_once(tmp_path):
    fleets = Fleets()
    try:
        fleet = fleets.of(["node0", "node1"], Joining(tmp_path, "127.0.0.1"), 60)
        lines = lambda node: fleet.agents[node].line
        found = fleet.pairs.measured(["node0", "node1"], None, lines)
        ways = {(each.sender, each.receiver) for each in found}
        assert ways == {("node0", "node1"), ("node1", "node0")}
        assert fleet.pairs.measured(["node0", "node1"], None, lines) == found
        assert fleet.pairs.measured(["node0"], None, lines) == []
        link = link_of("node0", found)
        assert {link.sent, link.received} == {each.bits_per_s for each in found}
        assert fleet.pairs.measured(["node0", "node1"], "nothing", lines) == []
        assert "nothing" in fleet.pairs.problems["node0", "node1"]
    finally:
        fleets.close()
