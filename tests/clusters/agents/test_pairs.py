"""The ways between nodes are measured in turn: each answer counts for the pair it was asked for."""

import pytest

from paceline.clusters.agents.pairs import Pairs
from paceline.comm.keeper_words import Expect, Expecting, Probe, Probed, Unprobed
from tests.engine.fakes import FakeLine


class Node(FakeLine):
    """An agent that answers at once, perhaps with what an earlier pair waited for in vain."""

    def __init__(self, *, is_behind: bool = False) -> None:
        super().__init__(self._answer)
        self.is_behind = is_behind
        self.refuses = False

    def receive(self, timeout_s=None):
        word = super().receive(0)
        assert word is not None, "it was waited for, and had nothing more to say"
        return word

    def _answer(self, word) -> None:
        if self.is_behind:
            self.say(Probed(token="old", received=1.0, round_trip_s=9.0))
        match word:
            case Expect(token=token) if self.refuses:
                self.say(Unprobed(token=token, reason="no such interface"))
            case Expect(token=token):
                self.say(Expecting(token=token, address="10.0.0.2", port=7))
                self.say(Probed(token=token, received=2e9, round_trip_s=0.5))
            case Probe(token=token):
                self.say(Probed(token=token, received=1e9, round_trip_s=0.5))


@pytest.fixture
def nodes():
    made = {f"node{index}": Node(is_behind=True) for index in range(3)}
    yield made
    for each in made.values():
        each.close()


def test_an_answer_that_comes_late_is_not_taken_for_the_next_pairs(nodes):
    pairs = Pairs()
    found = pairs.measured([*nodes], None, nodes.__getitem__)
    assert not pairs.problems
    assert len(found) == 6
    assert {each.round_trip_s for each in found} == {0.5}


def test_a_pair_that_could_not_be_measured_is_tried_again_with_the_next_run(nodes):
    pairs = Pairs()
    for each in nodes.values():
        each.refuses = True
    assert pairs.measured([*nodes], None, nodes.__getitem__) == []
    assert {*pairs.problems.values()} == {"no such interface"}
    for each in nodes.values():
        each.refuses = False
    assert len(pairs.measured([*nodes], None, nodes.__getitem__)) == 6
    assert not pairs.problems


def test_a_node_that_is_lost_ends_the_measurement_before_the_next_round(nodes):
    class Lost(Exception):
        pass

    def raise_if_lost() -> None:
        raise Lost

    with pytest.raises(Lost):
        Pairs().measured([*nodes], None, nodes.__getitem__, raise_if_lost)
