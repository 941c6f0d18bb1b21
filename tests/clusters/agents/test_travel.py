"""What a run needs of its user's goes with it, and what a node has of its own decides there."""

import hashlib
import socket
import sys
from pathlib import Path

import pytest

from paceline.catalogue import load
from paceline.engine.driver import run
from paceline.errors import NodeMissing, SeatFailed, SpecError
from paceline.spec import RunSpec
from paceline.system.cores import usable_cores

APART = Path(__file__).with_name("apart.py")
WORKLOAD = """
import os
import torch
import paceline
import beside

assert os.path.dirname(__file__) != {home!r} or "PACELINE_NODE" not in os.environ


class Mine(paceline.Workload):
    def model(self):
        from package.late import model  # only where it is needed

        return model()

    def data(self, split, dtype):
        scale = 2.0 if os.path.exists("other-data") else 1.0
        return paceline.Tensors(*beside.rows(dtype, scale), origin="my rows")
"""
BESIDE = """
import torch


def rows(dtype, scale):
    inputs = torch.linspace(-scale, scale, 256, dtype=dtype).reshape(64, 4)
    return inputs, (inputs.sum(1) > 0).long()
"""
LATE = """
from torch import nn

from . import sizes


def model():
    return nn.Linear(sizes.INPUTS, 2)
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """A folder in which each node has its own; their agents stay for all tests."""
    folder = tmp_path_factory.mktemp("hosts")
    yield folder
    load(f"{APART}:FLEETS").close()
    assert [*folder.glob("node?/tmp/paceline-*")] == []


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of a user, which no node sees."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("beside", "package", "package.late", "package.sizes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    folder = tmp_path / "home"
    (folder / "package").mkdir(parents=True)
    (folder / "mine.py").write_text(WORKLOAD.format(home=str(folder)))
    (folder / "beside.py").write_text(BESIDE)
    (folder / "package" / "__init__.py").touch()
    (folder / "package" / "late.py").write_text(LATE)
    (folder / "package" / "sizes.py").write_text("INPUTS = 4\n")
    (folder / "unrelated.py").write_text("raise SystemExit\n")
    monkeypatch.chdir(folder)  # where torch's own module `torch._classes` claims to have its file
    return folder


def own_address():
    """IPv6, where there is some: other tests have IPv4."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return "127.0.0.1"
    return "::1"


def spec_of(home, hosts, interface=None, **more):
    cluster = {"name": f"{APART}:Apart", "folder": str(hosts), "address": own_address()}
    table = {
        "workload": f"{home / 'mine.py'}:Mine",
        "strategy": "ps-sync",
        "cluster": cluster | ({"interface": interface} if interface else {}),
        "num_workers": 3,
        "batch": 4,
        "steps": 4,
    }
    return RunSpec.from_table(table | more)


def test_a_users_file_and_what_it_imports_are_loaded_from_where_the_run_took_them(
    home, hosts, tmp_path
):
    result = run(spec_of(home, hosts), out=tmp_path)
    assert result.global_steps == 4
    assert result.workload == f"{home / 'mine.py'}:Mine"
    sent = {Path(name).name: digest for name, digest in result.sent_files.items()}
    assert {"mine.py", "beside.py", "late.py", "sizes.py", "apart.py"} <= sent.keys()
    assert "unrelated.py" not in sent
    assert sent["beside.py"] == hashlib.sha256(BESIDE.encode()).hexdigest()
    assert [*hosts.glob("node?/tmp/paceline-*")] == []
    cores = usable_cores() or 1.0
    assert [node.num_cores for node in result.nodes] == [cores, cores]
    threads = [max(1, int(cores // workers)) for workers in (2, 1)]
    assert [node.threads for node in result.nodes] == threads


def test_a_module_that_only_the_driver_has_is_named_with_its_host_and_file(
    home, hosts, tmp_path, monkeypatch
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "only_on_the_driver.py").touch()
    monkeypatch.syspath_prepend(elsewhere)
    (home / "beside.py").write_text(f"import only_on_the_driver\n{BESIDE}")
    with pytest.raises(SeatFailed) as caught:
        run(spec_of(home, hosts), out=tmp_path)
    message = str(caught.value)
    assert " (host-node" in message
    assert "No module named 'only_on_the_driver'" in message
    assert f"imported by {home / 'beside.py'} line 1" in message
    assert caught.value.result.worker_steps == 0
    assert [*hosts.glob("node?/tmp/paceline-*")] == []


def test_data_that_differs_is_refused_before_training_with_both_nodes_named(home, hosts, tmp_path):
    (hosts / "node1").mkdir(exist_ok=True)
    (hosts / "node1" / "other-data").touch()
    try:
        with pytest.raises(SeatFailed) as caught:
            run(spec_of(home, hosts), out=tmp_path)
    finally:
        (hosts / "node1" / "other-data").unlink()
    message = str(caught.value)
    assert "worker2" in message
    assert "on node1 (host-node1) it reads my rows (64 rows, checksum " in message
    assert "worker0 on node0 (host-node0) reads my rows (64 rows, checksum " in message
    assert caught.value.result.worker_steps == 0


def test_an_interface_is_chosen_by_its_name_and_one_that_is_not_there_is_an_error(
    home, hosts, tmp_path
):
    chosen = run(spec_of(home, hosts, interface="lo", strategy="ring"), out=tmp_path)
    assert chosen.global_steps == 4
    with pytest.raises(NodeMissing, match=r"on host .*: cluster\.interface = 'eth77'.*lo"):
        run(spec_of(home, hosts, interface="eth77"), out=tmp_path)


def test_more_files_than_travel_are_refused_before_anything_starts(
    home, hosts, tmp_path, monkeypatch
):
    monkeypatch.setattr("paceline.engine.packing.MOST_BYTES", 100)
    with pytest.raises(SpecError, match=r"would travel to the nodes.*The largest is .*\.py"):
        run(spec_of(home, hosts), out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
