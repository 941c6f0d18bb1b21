"""All-reduce, where only one thing matters at a time."""

from dataclasses import replace

import pytest

from paceline.arithmetic.all_reduce import all_reduce_step, buckets, reduction
from paceline.arithmetic.costs import NO_COSTS, Costs
from paceline.arithmetic.exchange import AllReducePattern
from paceline.arithmetic.network import LinkRate, Network
from paceline.arithmetic.step import ComputeStep, LayerCost
from tests.arithmetic.steps import LINK, MB, STEP

FAST = Network(link=LinkRate(bits_per_s=1e15))


def step_s(num_nodes: int, network: Network, **more: object) -> float:
    exchange = AllReducePattern(**more)
    return all_reduce_step(
        STEP,
        exchange,
        num_workers=num_nodes,
        num_nodes=num_nodes,
        network=network,
        costs=NO_COSTS,
    ).step_s


def test_a_tiny_tensor_costs_a_latency_per_hop():
    network = replace(FAST, latency_s=0.001)
    for num_nodes in (2, 5, 16):
        assert reduction(4, num_nodes, network, NO_COSTS).whole_s == pytest.approx(
            2 * (num_nodes - 1) * 0.001, rel=1e-3
        )


@pytest.mark.parametrize(("num_nodes", "exchanges"), [(2, 2), (16, 8), (256, 16), (5, 6)])
def test_halving_costs_two_log_n_latencies(num_nodes: int, exchanges: int):
    network = replace(FAST, latency_s=0.001)
    took = reduction(4, num_nodes, network, NO_COSTS, "halving")
    assert took.whole_s == pytest.approx(exchanges * 0.001, rel=1e-3)


def test_a_large_tensor_hides_its_latency_behind_its_bytes():
    without = reduction(80 * MB, 4, Network(link=LINK), NO_COSTS).whole_s
    delayed = reduction(80 * MB, 4, Network(link=LINK, latency_s=0.005), NO_COSTS).whole_s
    assert without == pytest.approx(1.5 * 0.8, rel=1e-3)
    assert delayed - without == pytest.approx(0.005, rel=1e-6)


def test_a_ring_is_as_fast_as_its_slowest_link():
    slow = Network(link=LINK, links={2: LinkRate(bits_per_s=LINK.bits_per_s / 4)})
    assert step_s(4, slow) == pytest.approx(0.6 + 4 * 1.2 * 1.5, rel=1e-3)
    assert step_s(2, slow) == step_s(2, Network(link=LINK))  # it is not among the first two


def test_racks_share_an_uplink_that_one_chunk_crosses_at_a_time():
    narrow = LinkRate(bits_per_s=LINK.bits_per_s / 2)
    racks = Network(link=LINK, uplink=narrow, rack=2)
    assert step_s(2, racks) == step_s(2, Network(link=LINK))
    assert step_s(4, racks) == pytest.approx(0.6 + 2 * 1.2 * 1.5, rel=1e-3)
    wide = replace(racks, uplink=LinkRate(bits_per_s=10 * LINK.bits_per_s))
    assert step_s(4, wide) == step_s(4, Network(link=LINK))


def test_workers_of_one_node_add_up_first_and_send_once():
    one = all_reduce_step(
        STEP,
        AllReducePattern(),
        num_workers=8,
        num_nodes=2,
        network=Network(link=LINK),
        costs=Costs(add_s_per_byte=1e-9),
    )
    two = step_s(2, Network(link=LINK))
    assert one.step_s == pytest.approx(two + 3 * 120 * MB * 1e-9, rel=0.02)


def test_parameters_are_grouped_as_the_strategy_groups_them():
    step = ComputeStep(
        layers=(
            LayerCost(forward_s=0.1, backward_s=0.2, parameters=(3 * MB, 1000)),
            LayerCost(forward_s=0.1, backward_s=0.2, parameters=(9 * MB, 1000)),
        )
    )
    found = buckets(step, AllReducePattern(bucket_bytes=4 * MB))
    assert [size for _, size in found] == [1000, 9 * MB, 3 * MB + 1000]
    assert [when for when, _ in found] == pytest.approx([0.4, 0.4, 0.6])
    first = buckets(STEP, AllReducePattern(bucket_bytes=200 * MB, first_bucket_bytes=MB))
    assert [size for _, size in first] == [100 * MB, 20 * MB]


def test_adding_and_messages_slow_a_ring_that_its_link_would_not():
    costs = Costs(message_s=1e-4, add_s_per_byte=1e-9, copy_s_per_byte=1e-9)
    assert reduction(40 * MB, 4, FAST, costs).whole_s > 1.5 * 40 * MB * 2e-9


def test_the_update_comes_after_the_exchange():
    step = replace(STEP, update_s=0.25)
    made = all_reduce_step(
        step, AllReducePattern(), num_workers=1, num_nodes=1, network=FAST, costs=NO_COSTS
    )
    assert made.step_s == pytest.approx(1.25)
