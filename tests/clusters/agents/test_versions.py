"""A run is one program on all of its nodes: whoever has another version is refused, by name."""

import pytest

from paceline.clusters.agents import versions
from paceline.clusters.agents.fleet import Agent, Fleet
from paceline.clusters.agents.versions import differences
from paceline.comm.keeper_words import Arrived
from paceline.comm.switchboard import Switchboard
from paceline.comm.vocabularies import NOTHING
from paceline.errors import NodeMissing
from tests.engine.fakes import FakeLine

OURS = {"paceline": "0.1.0", "torch": "2.6.0", "python": "3.11"}


@pytest.fixture(autouse=True)
def driver(monkeypatch):
    monkeypatch.setattr(versions, "own_versions", lambda: OURS)


DIFFERENT = [
    ({"paceline": "0.2.0"}, "it has paceline 0.2.0, the driver 0.1.0"),
    ({"torch": "2.5.1"}, "it has torch 2.5.1, the driver 2.6.0"),
    ({"python": "3.12"}, "it has python 3.12, the driver 3.11"),
]


@pytest.mark.parametrize(("odd", "told"), DIFFERENT, ids="".join)
def test_each_of_them_is_compared(odd, told):
    assert [*differences(OURS | odd)] == [told]
    assert not [*differences(OURS)]


def test_a_node_without_a_package_has_another_version():
    theirs = {name: version for name, version in OURS.items() if name != "torch"}
    assert [*differences(theirs)] == ["it has no torch, the driver 2.6.0"]


@pytest.mark.parametrize("version", ["2.6.0", "2.6.0+cpu", "2.6.0+cu124"])
def test_what_torch_was_built_for_does_not_count(version, monkeypatch):
    monkeypatch.setattr(versions.metadata, "version", lambda _: version)
    assert versions._version("torch") == "2.6.0"


@pytest.mark.parametrize(("odd", "told"), DIFFERENT, ids="".join)
def test_a_node_that_differs_is_refused_by_name(odd, told):
    fleet, line, board = Fleet(), FakeLine(), Switchboard(NOTHING)
    for index, theirs in enumerate((OURS, OURS | odd)):
        word = Arrived(pid=1, host="x", address="127.0.0.1", cores=1.0, versions=theirs)
        fleet.labels[f"node{index}"] = f"node{index} ({'ab'[index]})"
        fleet.agents[f"node{index}"] = Agent(line, word, board)
    try:
        with pytest.raises(NodeMissing, match=rf"^node1 \(b\): {told}$"):
            fleet._check_versions()
    finally:
        board.close()
        line.close()
