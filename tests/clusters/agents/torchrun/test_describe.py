"""`--cluster torchrun` where there is no torchrun, and what it prints."""

import sys
from types import SimpleNamespace

import pytest

from paceline.cli import main
from paceline.clusters.agents import addresses
from paceline.clusters.agents.torchrun.describe import Torchrun
from paceline.clusters.agents.torchrun.driving import TorchrunLauncher
from paceline.clusters.agents.torchrun.words import Hello
from paceline.errors import SpecError
from paceline.spec import RunSpec
from tests.clusters.agents import ways

TABLE = {"workload": "logistic-mnist", "strategy": "ring", "cluster": {"name": "torchrun"}}


def test_machines_are_as_many_as_torchrun_says(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    spec = RunSpec.from_table(TABLE)
    assert {seat.node for seat in spec.seats()} == {"node0", "node1", "node2"}
    assert spec.num_workers == 3
    monkeypatch.delenv("WORLD_SIZE")
    assert RunSpec.from_table(spec.table()).cluster == Torchrun(nodes=3)


def test_no_machine_is_left_empty():
    with pytest.raises(SpecError, match=r"cluster\.nodes = 4: 2 workers leave some of them empty"):
        RunSpec.from_table(TABLE | {"num_workers": 2, "cluster": {"name": "torchrun", "nodes": 4}})


def test_python_cannot_start_it_alone():
    with pytest.raises(SpecError, match="only a command that torchrun starts has nodes: torchrun"):
        Torchrun().verify()


def command(monkeypatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["paceline", "run", "logistic-mnist", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code


def test_the_commands_are_printed(monkeypatch, capsys):
    options = ["--strategy", "ring", "--cluster", "torchrun", "--nodes", "3"]
    assert not command(monkeypatch, *options, "--print")
    printed = capsys.readouterr().out
    own = f"-m paceline run logistic-mnist {' '.join(options)}"
    start = "PACELINE_SECRET_FILE=paceline.secret torchrun --nnodes 3 --nproc-per-node 1"
    assert f"{start} --rdzv-backend c10d --rdzv-endpoint HOST:29500 {own}\n" in printed
    for rank in range(3):
        at = f"--node-rank {rank} --master-addr HOST --master-port 29500"
        assert f"{start} {at} {own}\n" in printed


def test_other_clusters_have_no_commands_to_print(monkeypatch, capsys):
    assert command(monkeypatch, "--print") == 2
    assert "--print = 'local'" in capsys.readouterr().err


def test_without_torchrun_it_is_said_how_to_start_it(monkeypatch, capsys):
    monkeypatch.delenv("RANK", raising=False)
    assert command(monkeypatch, "--cluster", "torchrun") == 2
    assert "not started by torchrun" in capsys.readouterr().err


def said(host: str, address: str) -> Hello:
    return Hello(host=host, address=address, number="")


@pytest.mark.parametrize("others", [{}, {2: said("vm3", "10.0.0.3")}], ids=["two", "three"])
def test_a_node_that_keeps_the_store_is_found_by_its_name(others, monkeypatch):
    """It reaches the store through its loopback device, and so knows no other address of its."""
    monkeypatch.setattr(addresses, "address_towards", ways.known)
    hellos = {1: said("vm2", "127.0.0.1"), **others}
    launcher = TorchrunLauncher(SimpleNamespace(hellos=hellos), None)
    assert launcher.own_address("node0") == launcher.own_address("node1") == ways.DRIVER
