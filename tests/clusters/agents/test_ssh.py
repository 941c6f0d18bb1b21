"""What is wrong with machines before any is reached. With hosts: tests/machines."""

import pytest

import paceline
from paceline.cli.elsewhere import fields_elsewhere
from paceline.cli.run import asked
from paceline.clusters.agents import addresses, ssh
from paceline.clusters.agents.ssh import Ssh, _SshLauncher
from paceline.comm.invitation import Invitation
from paceline.errors import NodeMissing, SpecError
from paceline.spec import RunSpec
from tests.clusters.agents import ways


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


def test_cores_of_a_host_that_is_not_named():
    told = refused(cluster=over("a", "b", cores={"c": 2}))
    assert "cluster.cores = {'c': 2.0}: not one of the hosts: c (choices: a, b)" in told


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
    own = {"a": "python3.11", "b": "python3.12"}
    cluster = Ssh(hosts=("a", "b"), pythons=own, cores={"a": 2.0, "b": 4.0})
    assert cluster.for_one() == Ssh(hosts=("a",), pythons={"a": "python3.11"}, cores={"a": 2.0})


@pytest.fixture
def network(monkeypatch):
    """The hosts of the guide: the driver's own name is a loopback address."""
    monkeypatch.setattr(addresses, "address_towards", ways.known)
    monkeypatch.setattr(ssh, "_host_name", lambda host: host.rpartition("@")[2])


def test_the_drivers_own_host_is_called_where_the_others_find_it(network):
    launcher = _SshLauncher(Ssh(hosts=("vm1", "user@vm2", "vm3")))
    assert {launcher.own_address(f"node{index}") for index in range(3)} == {ways.DRIVER}
    assert _SshLauncher(Ssh(hosts=("vm1",))).own_address("node0") == "127.0.0.1"
    chosen = _SshLauncher(Ssh(hosts=("vm1", "vm2"), address="192.168.7.1"))
    assert chosen.own_address("node0") == "192.168.7.1"


def test_an_agent_that_others_would_not_find_is_not_theirs(network):
    """As in `compare single,ring`: the first run has a host to itself."""
    cluster = Ssh(hosts=("vm1", "vm2"))
    alone, both = _SshLauncher(cluster.for_one()), _SshLauncher(cluster)
    assert alone.identity("node0") != both.identity("node0")
    with cluster.assembled():
        assert alone.identity("node0") == both.identity("node0")


def test_a_home_is_where_ssh_logs_in_to():
    cluster = Ssh(hosts=("a", "b"), python="~/paceline/bin/python", pythons={"b": "/opt/~/python"})
    launcher = _SshLauncher(cluster)
    assert launcher._python("node0") == "./paceline/bin/python"
    assert launcher._python("node1") == "/opt/~/python"


def test_a_host_may_have_fewer_cores_than_it_has():
    launcher = _SshLauncher(Ssh(hosts=("a", "b"), cores={"b": 2.0}))
    assert [launcher.most_cores(f"node{index}") for index in range(2)] == [None, 2.0]


@pytest.fixture
def ssh_command(tmp_path, monkeypatch):
    """Write what takes the place of `ssh`."""

    def write(script):
        command = tmp_path / "ssh"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    ssh._host_name.cache_clear()
    yield write
    ssh._host_name.cache_clear()


def test_the_name_is_what_the_configuration_says(ssh_command):
    ssh_command('echo "user $USER"; echo "hostname $2.example"')
    assert ssh._host_name("a") == "a.example"


def test_a_configuration_that_waits_is_named(ssh_command, monkeypatch):
    monkeypatch.setattr(ssh, "_READING_S", 0.1)
    ssh_command("exec sleep 60")
    with pytest.raises(NodeMissing, match=r"node0 \(a\): .*`ssh -G a` did not end within 0\.1 s"):
        _SshLauncher(Ssh(hosts=("a",))).own_address("node0")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", "node0 (a): it does not reach 10.0.0.1 port 7 of this machine: a firewall?"),
        ("127.0.0.1", "node0 (a): it was to call 127.0.0.1, where it only reaches itself"),
    ],
)
def test_an_agent_that_cannot_call_says_which_address(ssh_command, address, expected):
    ssh_command(f'echo "cannot call the driver at {address} port 7: timed out" >&2; exit 1')
    invitation = Invitation(who="node0", host=address, port=7, certificate="", token="")
    launcher = _SshLauncher(Ssh(hosts=("a",)))
    launch = launcher.start("node0", invitation)
    try:
        assert launch._process.wait(30) == 1
        told = f"{launcher.label('node0')}: {launch.failure()}"
        assert told.startswith(expected)
        assert "cluster.address names the address of this machine" in told
    finally:
        launch.end()


def test_no_ssh_command(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SpecError, match="there is no ssh command here"):
        paceline.run("logistic-mnist", strategy="ring", cluster=over("a", "b"), out=tmp_path)
    assert not [*tmp_path.iterdir()]


def test_what_a_host_prints_may_be_in_any_encoding(ssh_command):
    ssh_command("printf 'caf\\351\\n' >&2; exit 255")
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
