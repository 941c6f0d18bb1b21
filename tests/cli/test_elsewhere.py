"""Commands that do their work on other machines, without any: tests/machines has some."""

import pytest

from paceline.cli import calibrate_nodes, monitor_nodes
from paceline.cli.elsewhere import cluster_elsewhere, cluster_table
from paceline.comm.node_words import CommandEnded, CommandMissing
from paceline.engine import on_nodes
from paceline.errors import SpecError
from paceline.spec import RunSpec


def test_without_workers_a_cluster_has_to_be_told_its_number_of_nodes():
    with pytest.raises(SpecError, match=r"cluster\.nodes = None: .* --set cluster\.nodes=3"):
        cluster_elsewhere(cluster_table("ray", None, None))
    table = {"workload": "logistic-mnist", "strategy": "solo", "cluster": "ray"}
    with pytest.raises(SpecError, match=r"cluster\.nodes = None"):
        calibrate_nodes._measure(RunSpec.from_table(table), 1, None)


def test_each_cluster_that_has_other_machines_is_a_choice():
    with pytest.raises(SpecError, match=r"\(choices: ssh, torchrun, ray, manual\)"):
        cluster_elsewhere(cluster_table("local", None, None))


class Watched:
    """Takes the place of the nodes: one prints two lines, the last of which has no end."""

    def __init__(self, last: CommandEnded | CommandMissing) -> None:
        self.last = last

    def __call__(self, cluster, entry, text, *, printed):
        printed("node0", b"first\nsec")
        printed("node1", b"of another")
        printed("node0", b"ond")
        yield "node0", self.last
        yield "node1", CommandEnded(0)


def watch(monkeypatch, last):
    monkeypatch.setattr(on_nodes, "on_nodes", Watched(last))
    monkeypatch.setattr(monitor_nodes, "cluster_elsewhere", lambda table: None)
    return monitor_nodes._watch({}, ["train"], 0.5, None)


def test_a_last_line_without_an_end_is_shown(monkeypatch, capsys):
    assert watch(monkeypatch, CommandEnded(3)) == 3
    printed = capsys.readouterr().out
    assert printed == "node0: first\nnode0: second\nnode1: of another\n"


def test_also_of_a_command_that_fails(monkeypatch, capsys):
    with pytest.raises(SpecError, match="cannot be started on node0"):
        watch(monkeypatch, CommandMissing("no such file"))
    assert "node0: second\n" in capsys.readouterr().out
