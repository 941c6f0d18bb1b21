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


@pytest.mark.parametrize(
    ("strategy", "num_workers"),
    [
        ({"name": "ring"}, 3),
        ({"name": "ps-sync", "servers": 2}, 3),
        ({"name": "ps-sync", "servers": 2, "placement": "separate"}, 1),
        ({"name": "solo"}, 3),
    ],
)
def test_nodes_alone_say_how_many_workers_there_are(strategy, num_workers):
    table = {"workload": "logistic-mnist", "strategy": strategy}
    table["cluster"] = {"name": "emulated", "nodes": 3}
    made = RunSpec.from_table(table)
    assert made.num_workers == num_workers
    assert len(set(where(made).values())) == 3
    assert RunSpec.from_table({**table, "num_workers": 4}).num_workers == 4


def test_single_has_one_worker_however_many_nodes_there_are():
    table = {"workload": "logistic-mnist", "cluster": {"name": "emulated", "nodes": 3}}
    with pytest.raises(
        SpecError, match=r"cluster.nodes = 3: num_workers = 1 needs 1 node; the rest"
    ):
        RunSpec.from_table(table)


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
        ({"nodes": 7}, "cluster.nodes", "num_workers = 3 needs 3 nodes; the rest would stay empty"),
        ({"link": 0}, "cluster.link", "greater than 0"),
        ({"link": "100gbit"}, "cluster.link", "100kbit to 34gbit"),
        ({"link": "99kbit"}, "cluster.link", "100kbit to 34gbit"),
        ({"links": {"node1": "40gbit"}}, "cluster.links.node1", "100kbit to 34gbit"),
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


def dilated(link: str, dilation: float) -> RunSpec:
    fields = {"workload": "resnet50-cifar10", "device": "replay:k80", "dilation": dilation}
    return RunSpec.from_table({**fields, "cluster": {"name": "emulated", "link": link}})


def test_under_dilation_it_is_the_slowed_link_that_must_be_possible():
    assert dilated("100gbit", 4.0).cluster.link == 100e9
    with pytest.raises(SpecError, match=r"cluster.link = 1000000.0: .* after dilation = 20"):
        dilated("1mbit", 20.0)
    with pytest.raises(SpecError, match=r"cluster.link"):
        dilated("100gbit", 2.0)


def test_servers_alone_need_room_for_workers_too():
    table = {
        "workload": "logistic-mnist",
        "strategy": {"name": "ps-sync", "placement": "separate"},
        "cluster": {"name": "emulated", "nodes": 1},
    }
    with pytest.raises(SpecError, match="workers need at least one more"):
        RunSpec.from_table(table)
