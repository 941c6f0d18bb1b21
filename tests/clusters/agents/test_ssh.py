"""What is wrong with machines before any is reached. With hosts: tests/machines."""

import pytest

import paceline
from paceline.cli.elsewhere import fields_elsewhere
from paceline.cli.run import asked
from paceline.clusters.agents.ssh import Ssh, _SshLauncher
from paceline.comm.invitation import Invitation
from paceline.errors import SpecError
from paceline.spec import RunSpec


def refused(**fields) -> str:
    with pytest.raises(SpecError) as error:
        RunSpec.from_table({"workload": "logistic-mnist", "strategy": "ring", **fields})
    return str(error.value)


def over(*hosts: str, **fields) -> dict:
    return {"name": "ssh", "hosts": [*hosts], **fields}


def test_no_host():
    assert "cluster.hosts = (): name at least one: --hosts a,b,c" in refused(cluster="ssh")


def test_a_host_named_twice():
    told = refused(cluster=over("a", "b", "a"))
    assert "cluster.hosts = ('a', 'b', 'a'): a host is named twice" in told


def test_more_hosts_than_workers():
    told = refused(cluster=over("a", "b", "c"), num_workers=2)
    assert "cluster.hosts = ('a', 'b', 'c'): 2 workers leave some of them empty" in told


def test_an_interpreter_for_a_host_that_is_not_named():
    told = refused(cluster=over("a", "b", pythons={"c": "python3"}))
    assert "cluster.pythons = {'c': 'python3'}: not one of the hosts: c (choices: a, b)" in told


def test_something_that_ssh_would_take_for_an_option():
    told = refused(cluster=over("a", "-oProxyCommand=id"))
    assert "cluster.hosts = ('a', '-oProxyCommand=id'): not the name of a host" in told


def test_hosts_of_the_command_line_are_nodes_with_a_worker_each():
    fields = fields_elsewhere("ssh", "a, user@b,c") | {"strategy.name": "ring"}
    spec = RunSpec.from_table(asked("logistic-mnist", fields, []).table())
    assert spec.cluster == Ssh(hosts=("a", "user@b", "c"))
    assert [seat.node for seat in spec.seats() if seat.role == "worker"] == [
        "node0",
        "node1",
        "node2",
    ]


def test_a_single_worker_is_on_the_first_host():
    cluster = Ssh(hosts=("a", "b"), pythons={"a": "python3.11", "b": "python3.12"})
    assert cluster.for_one() == Ssh(hosts=("a",), pythons={"a": "python3.11"})


def test_no_ssh_command(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SpecError, match="there is no ssh command here"):
        paceline.run("logistic-mnist", strategy="ring", cluster=over("a", "b"), out=tmp_path)
    assert not [*tmp_path.iterdir()]


def test_what_a_host_prints_may_be_in_any_encoding(tmp_path, monkeypatch):
    command = tmp_path / "ssh"
    command.write_text("#!/bin/sh\nprintf 'caf\\351\\n' >&2\nexit 255\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    invitation = Invitation(who="node0", host="::1", port=1, certificate="", token="")
    launch = _SshLauncher(Ssh(hosts=("a",))).start("node0", invitation)
    try:
        assert launch._process.wait(30) == 255
        assert launch.failure().endswith("caf\N{REPLACEMENT CHARACTER}")
    finally:
        launch.end()


@pytest.mark.parametrize(
    "cluster",
    [
        over("a", "b"),
        {"name": "torchrun", "nodes": 2},
        {"name": "ray", "nodes": 2},
        {"name": "manual", "hosts": {"worker": ["a", "b"]}},
    ],
    ids=lambda each: each["name"],
)
def test_a_worker_that_its_machines_cannot_start_again_is_refused_before_the_run(cluster):
    told = refused(cluster=cluster, num_workers=2, on_failure="replace")
    assert f"on_failure = 'replace': {cluster['name']} cannot start a worker again" in told
    assert "(choices: abort, go-on, restart)" in told
