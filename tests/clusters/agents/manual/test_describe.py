"""The list of hosts by role, as far as it goes without any host."""

import pytest

from paceline.clusters.agents import addresses
from paceline.clusters.agents.manual import describe, joining
from paceline.clusters.agents.manual.describe import Manual, _ManualLauncher
from paceline.errors import SpecError
from paceline.spec import RunSpec
from tests.clusters.agents import ways

# As in report 004.
LIST = {"ps": ("10.0.0.13:2861",), "worker": ("10.0.0.11:2861", "10.0.0.12:2861")}


def test_who_sits_where_and_listens_at_which_port():
    cluster = Manual(hosts=LIST)
    seats = cluster.seats(2, 1)
    hosts = {seat.name: cluster.host_of(seat.node) for seat in seats}
    assert hosts == {
        "worker0": "10.0.0.11",
        "worker1": "10.0.0.12",
        "server0": "10.0.0.13",
        "monitor0": "10.0.0.11",
        "monitor1": "10.0.0.12",
        "monitor2": "10.0.0.13",
    }
    assert cluster.ports(seats) == {"worker0": 2861, "worker1": 2861, "server0": 2861}
    assert cluster.workers_meant(1) == 2


def test_several_seats_of_one_host_are_one_node():
    cluster = Manual(hosts={"worker": ("a:1", "a:2", "b")})
    assert [seat.node for seat in cluster.seats(3, 0)][:3] == ["node0", "node0", "node1"]
    assert cluster.ports(cluster.seats(3, 0)) == {"worker0": 1, "worker1": 2}


def test_hosts_of_servers_are_left_out_where_there_are_none():
    assert {seat.node for seat in Manual(hosts=LIST).seats(2, 0)} == {"node0", "node1"}


def problems(**fields):
    return [str(each) for each in Manual(**fields).problems()]


def test_lists_that_cannot_be_meant():
    assert "name at least one" in problems()[0]
    assert "'b:http'" in problems(hosts={"worker": ("b:http",)})[0]
    assert "needs its own port" in problems(hosts={"worker": ("b:1", "b:1")})[0]
    assert not problems(hosts=LIST)


def test_a_list_that_does_not_fit_the_strategy():
    table = {"workload": "logistic-mnist", "strategy": {"name": "ps-sync", "servers": 2}}
    cluster = {"name": "manual", "hosts": {role: [*each] for role, each in LIST.items()}}
    with pytest.raises(SpecError, match=r"cluster.hosts.ps .* strategy.servers=1"):
        RunSpec.from_table(table | {"cluster": cluster, "num_workers": 2})
    with pytest.raises(SpecError, match=r"cluster.hosts.worker .* not 3"):
        RunSpec.from_table({"workload": "logistic-mnist", "cluster": cluster, "num_workers": 3})


def test_a_role_that_there_is_not():
    cluster = {"name": "manual", "hosts": {"chief": ["a"]}}
    with pytest.raises(SpecError, match=r"cluster\.hosts"):
        RunSpec.from_table({"workload": "logistic-mnist", "cluster": cluster})


def test_without_a_secret_it_says_how_to_make_one(monkeypatch):
    monkeypatch.setattr(describe, "_secrets", [])
    monkeypatch.delenv("PACELINE_SECRET", raising=False)
    monkeypatch.delenv("PACELINE_SECRET_FILE", raising=False)
    with pytest.raises(SpecError, match="openssl rand"):
        Manual(hosts=LIST).verify()


def test_what_to_type_on_each_machine():
    told = Manual(hosts=LIST, address="10.0.0.1").commands(["run", "my list.toml"])
    assert "paceline run 'my list.toml'" in told
    assert told.count("paceline join 10.0.0.1:2860") == 3


SECRET = "0123456789abcdef" * 4


@pytest.mark.parametrize("name", [None, "vm1"])
def test_the_drivers_own_host_is_known_by_the_address_it_calls_from(name, monkeypatch):
    """In a list of names, where its own stands for a loopback address."""
    monkeypatch.setattr(describe, "_secrets", [SECRET])
    monkeypatch.setattr(describe, "numeric", ways.numeric)
    monkeypatch.setattr(joining, "numeric", ways.numeric)
    monkeypatch.setattr(addresses, "address_towards", ways.known)
    monkeypatch.setattr(joining, "address_towards", ways.known)
    launcher = _ManualLauncher(Manual(hosts={"worker": ("vm1", "vm2", "vm3")}))
    assert launcher.own_address("node0") == launcher.own_address("node2") == ways.DRIVER
    typed = joining.invited(SECRET, ways.DRIVER, 2860, name, 1.0)
    assert typed.who == launcher.who("node0") == f"host {ways.DRIVER}"
    assert bytes.fromhex(typed.token) == launcher.token("node0")
    assert {*launcher.expected()} == {"host 10.0.0.1", "host 10.0.0.2", "host 10.0.0.3"}
