"""What nodes sent and received, beside what theory says."""

import pytest

from paceline.outcome.accounts import ServerAccount, WorkerAccount
from paceline.outcome.facts import Facts
from paceline.outcome.results import Result, WorkerTotals
from paceline.outcome.traffic import counted_on, traffic_of
from paceline.strategies.all_reduce.describe import Ring
from paceline.strategies.parameter_server.describe import PsSync

MODEL_BYTES = 1_000_000
STEPS = 10


def facts_of(seats, flows) -> Facts:
    return Facts(
        workload="w",
        strategy="s",
        cluster="c",
        meaning="",
        num_workers=sum(seat.startswith("worker") for each in seats.values() for seat in each),
        batch_size=1,
        seed=0,
        target=None,
        seats=seats,
        num_cores={},
        tensorboard=False,
        flows=flows,
    )


def row(sent: int, received: int) -> dict:
    counted = {"net_sent_bytes": sent, "net_received_bytes": received}
    return {**counted, "packets_sent": 1, "packets_received": 1}


def account(**counted) -> WorkerAccount:
    return WorkerAccount(train_s=1.0, worker_steps=STEPS, samples=STEPS, **counted)


def said_by(*workers: str) -> dict[str, WorkerAccount]:
    return {name: account(parameter_bytes=MODEL_BYTES) for name in workers}


def nodes_of(seats) -> dict[str, str]:
    """The node of each worker."""
    return {
        name: node for node, names in seats.items() for name in names if name.startswith("worker")
    }


def law(seats, flows, measured) -> dict:
    facts = facts_of(seats, flows)
    counted = {node: counted_on(node, facts, [row(*each)], []) for node, each in measured.items()}
    workers = [seat for each in seats.values() for seat in each if seat.startswith("worker")]
    found = traffic_of(facts, counted, said_by(*workers), {})
    assert found is not None
    return {each.node: each for each in found.nodes}


@pytest.mark.parametrize(("num_workers", "share"), [(2, 1.0), (4, 1.5), (6, 10 / 6)])
def test_a_ring_sends_and_receives_its_share(num_workers, share):
    seats = {f"node{rank}": [f"worker{rank}"] for rank in range(num_workers)}
    wanted = round(share * MODEL_BYTES * STEPS)
    found = law(seats, Ring().flows(nodes_of(seats)), dict.fromkeys(seats, (wanted, wanted)))
    for each in found.values():
        assert each.expected_sent_bytes == each.expected_received_bytes == wanted
        assert each.sent_ratio == each.received_ratio == 1.0


def test_a_server_apart_meets_all_workers_and_one_beside_all_but_one():
    beside = {"node0": ["worker0", "server0"], "node1": ["worker1"], "node2": ["worker2"]}
    apart = {"node0": ["worker0"], "node1": ["worker1"], "node2": ["worker2"], "node3": ["server0"]}
    flows = PsSync().flows(nodes_of(apart))
    model = MODEL_BYTES * STEPS
    found = law(beside, flows, {"node0": (2 * model, 4 * model), "node1": (model, model)})
    assert (found["node0"].sent_ratio, found["node0"].received_ratio) == (1.0, 2.0)
    assert found["node1"].expected_sent_bytes == model
    found = law(apart, flows, {"node0": (model, model), "node3": (3 * model, 3 * model)})
    assert found["node3"].sent_ratio == found["node3"].received_ratio == 1.0


def test_several_servers_share_the_parameters():
    seats = {"node0": ["worker0", "server0"], "node1": ["worker1", "server1"]}
    flows = PsSync(servers=2).flows(nodes_of(seats))
    found = law(seats, flows, {"node0": (MODEL_BYTES * STEPS, 0)})
    assert found["node0"].expected_sent_bytes == MODEL_BYTES * STEPS


def test_workers_of_one_node_send_nothing_through_its_link():
    seats = {"node0": ["worker0", "worker1"], "node1": ["worker2", "worker3"]}
    flows = PsSync().flows(nodes_of(seats))
    seats["node0"].append("server0")
    found = law(seats, flows, {"node0": (0, 0)})
    assert found["node0"].expected_sent_bytes == 2 * MODEL_BYTES * STEPS


def test_without_a_closed_form_or_a_known_size_there_is_no_ratio():
    seats = {"node0": ["worker0"], "node1": ["worker1"]}
    assert law(seats, None, dict.fromkeys(seats, (1, 1))) == {}
    facts = facts_of(seats, Ring().flows(nodes_of(seats)))
    assert traffic_of(facts, {}, {}, {}).nodes == ()


def test_pairs_are_what_the_senders_counted_and_only_between_nodes():
    seats = {"node0": ["worker0", "server0"], "node1": ["worker1"]}
    workers = {
        "worker0": account(sent_to={"server0": 5}),
        "worker1": account(sent_to={"server0": 7}),
    }
    servers = {"server0": ServerAccount(sent_to={"worker0": 5, "worker1": 8})}
    pairs = traffic_of(facts_of(seats, None), {}, workers, servers).pairs
    assert [(each.sender, each.receiver, each.num_bytes) for each in pairs] == [
        ("node0", "node1", 8),
        ("node1", "node0", 7),
    ]


def test_on_one_node_the_transports_count_and_it_says_so():
    workers = [
        WorkerTotals(
            name=f"worker{rank}", worker_steps=1, samples=1, train_s=1.0,
            sent_bytes=100, received_bytes=200,
        )
        for rank in range(2)
    ]  # fmt: skip
    ring = facts_of({"node0": ["worker0", "worker1"]}, None)
    counted = counted_on("node0", ring, [], workers)
    assert counted is not None
    assert (counted.sent_bytes, counted.counted_by) == (200, "transports")
    server = facts_of({"node0": ["worker0", "worker1", "server0"]}, None)
    counted = counted_on("node0", server, [], workers)
    assert counted is not None
    assert counted.sent_bytes == counted.received_bytes == 600
    assert traffic_of(ring, {"node0": counted}, {}, {}) is None


def test_a_result_is_read_as_it_was_written():
    seats = {"node0": ["worker0"], "node1": ["worker1"]}
    facts = facts_of(seats, Ring().flows(nodes_of(seats)))
    counted = {node: counted_on(node, facts, [row(9, 9)], []) for node in seats}
    traffic = traffic_of(facts, counted, said_by("worker0", "worker1"), {})
    result = Result(
        run="r", status="finished", workload="w", strategy="s", cluster="c", meaning="",
        num_workers=2, batch_size=1, seed=0, traffic=traffic,
    )  # fmt: skip
    assert Result.from_table(result.table()) == result
