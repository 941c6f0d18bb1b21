"""What one may ask of an emulated cluster, and who sits where."""

import pytest

from paceline.clusters.emulated.describe import Emulated
from paceline.errors import SpecError
from paceline.spec import RunSpec


def spec(**cluster) -> RunSpec:
    return RunSpec.from_table(
        {
            "workload": {"name": "logistic-mnist"},
            "strategy": {"name": "ps-sync", "servers": 2},
            "num_workers": 3,
            "cluster": {"name": "emulated", **cluster},
        }
    )


def where(spec: RunSpec) -> dict[str, str]:
    return {seat.name: seat.node for seat in spec.seats() if seat.role != "monitor"}


def test_a_node_a_worker_and_servers_beside_them():
    assert where(spec()) == {
        "worker0": "node0", "worker1": "node1", "worker2": "node2",
        "server0": "node0", "server1": "node1",
    }  # fmt: skip


def test_servers_have_nodes_of_their_own_where_asked_for():
    made = RunSpec.from_table(
        {
            "workload": "logistic-mnist",
            "strategy": {"name": "ps-sync", "servers": 2, "placement": "separate"},
            "num_workers": 3,
            "cluster": "emulated",
        }
    )
    assert where(made)["server0"] == "node3"
    assert where(made)["server1"] == "node4"
    assert sum(seat.role == "monitor" for seat in made.seats()) == 5


def test_fewer_nodes_than_workers_share_them_evenly():
    seats = Emulated(nodes=2).seats(5, 0)
    assert [seat.node for seat in seats[:5]] == ["node0", "node0", "node0", "node1", "node1"]


def test_rates_and_shares_are_read_and_kept():
    made = spec(link="100mbit", links={"node2": "2.5gbit"}, cpus={"node1": 0.25}).cluster
    assert (made.link, made.links, made.cores_of("node1")) == (1e8, {"node2": 2.5e9}, 0.25)
    assert made.cores_of("node0") is None
    assert Emulated(cpus=0.5).cores_of("node7") == 0.5
    again = spec(link=1e8, links={"node2": 2.5e9}, cpus={"node1": 0.25})
    assert again.cluster == made
    assert "node2 = 2500000000.0" in again.toml()


@pytest.mark.parametrize(
    ("cluster", "field", "said"),
    [
        ({"link": "fast"}, "cluster.link", "100mbit or 1gbit"),
        ({"links": {"node9": "1gbit"}}, "cluster.links.node9", "no such node"),
        ({"cpus": {"node9": 1}}, "cluster.cpus.node9", "no such node"),
        ({"nodes": 7}, "cluster.nodes", "empty"),
        ({"link": 0}, "cluster.link", "greater than 0"),
        ({"link": "100gbit"}, "cluster.link", "34gbit"),
        ({"cpus": -1}, "cluster.cpus", "greater than 0"),
        ({"latency_s": "soon"}, "cluster.latency_s", "5ms"),
    ],
)
def test_what_cannot_be_is_said_by_field(cluster, field, said):
    with pytest.raises(SpecError) as failure:
        spec(**cluster)
    (problem,) = failure.value.problems
    assert problem.field == field
    assert said in problem.reason


def test_servers_alone_need_room_for_workers_too():
    table = {
        "workload": "logistic-mnist",
        "strategy": {"name": "ps-sync", "placement": "separate"},
        "cluster": {"name": "emulated", "nodes": 1},
    }
    with pytest.raises(SpecError, match="workers need one too"):
        RunSpec.from_table(table)
