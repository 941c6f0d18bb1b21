"""A ring against its own events: every segment followed from node to node over every link."""

from collections.abc import Sequence

import pytest

from paceline.arithmetic.all_reduce import reduction
from paceline.arithmetic.costs import NO_COSTS, Costs
from paceline.arithmetic.exchange import AllReducePattern
from paceline.arithmetic.forecast import Situation, forecast
from paceline.arithmetic.network import HEADER_BYTES, LinkRate, Network
from paceline.arithmetic.pipes import Pipe
from paceline.arithmetic.ring import links_between, segment_bytes
from paceline.arithmetic.step import ComputeStep
from tests.arithmetic.steps import MB

GBIT = LinkRate(bits_per_s=1e9)
IDLE_S = 1.0
"""How long links had nothing to do before."""
STEPS = 24


def followed_s(num_bytes: float, num_nodes: int, network: Network, handled_s: float = 0.0) -> float:
    """How long all nodes take that begin together."""
    pipes = [_way(network, node, num_nodes) for node in range(num_nodes)]
    return max(_around(num_bytes, [IDLE_S] * num_nodes, pipes, network, handled_s)) - IDLE_S


def every_s(num_bytes: float, compute_s: Sequence[float], network: Network) -> float:
    """How far apart steps are of nodes that compute again as soon as they have all sums."""
    pipes = [_way(network, node, len(compute_s)) for node in range(len(compute_s))]
    ends_s, ended_s = [IDLE_S] * len(compute_s), list[float]()
    for _ in range(STEPS):
        starts_s = [end_s + own_s for end_s, own_s in zip(ends_s, compute_s, strict=True)]
        ends_s = _around(num_bytes, starts_s, pipes, network)
        ended_s.append(max(ends_s))
    half = STEPS // 2
    return (ended_s[-1] - ended_s[half - 1]) / half


def _around(
    num_bytes: float,
    starts_s: Sequence[float],
    pipes: Sequence[Pipe],
    network: Network,
    handled_s: float = 0.0,
) -> list[float]:
    """Send each segment when the one before has left and what is added to it has come."""
    num_nodes = len(starts_s)
    chunk = num_bytes / num_nodes
    segment = segment_bytes(chunk)
    sizes = [segment] * int(chunk // segment)
    if chunk - sum(sizes) > 1e-6:
        sizes.append(chunk - sum(sizes))
    came_s = [[start_s] * len(sizes) for start_s in starts_s]
    for _hop in range(2 * (num_nodes - 1)):
        arrivals: list[list[float]] = [[] for _ in range(num_nodes)]
        for node in range(num_nodes):
            for size, ready_s in zip(sizes, came_s[node], strict=True):
                left_s = pipes[node].take(max(ready_s, starts_s[node]), size + HEADER_BYTES)
                arrived_s = left_s + network.latency_s + handled_s
                arrivals[(node + 1) % num_nodes].append(arrived_s)
        came_s = arrivals
    return [max(each) for each in came_s]


def _way(network: Network, node: int, num_nodes: int) -> Pipe:
    slower = min(network.link_of(node), network.link_of((node + 1) % num_nodes))
    return Pipe(f"from node{node}", slower.bytes_per_s, network.burst_s)


@pytest.mark.parametrize("num_nodes", [2, 3, 8, 16, 64])
@pytest.mark.parametrize("latency_s", [0.0, 0.001, 0.005])
@pytest.mark.parametrize("num_bytes", [64 * 1024, MB, 24 * MB])
def test_equal_links_take_what_their_events_do(num_nodes: int, latency_s: float, num_bytes: int):
    network = Network(link=GBIT, latency_s=latency_s)
    took_s = reduction(num_bytes, num_nodes, network, NO_COSTS).whole_s
    assert took_s == pytest.approx(followed_s(num_bytes, num_nodes, network), rel=0.02)


@pytest.mark.parametrize("num_nodes", [2, 3, 8, 16, 64])
@pytest.mark.parametrize("latency_s", [0.0, 0.0002, 0.001, 0.005])
@pytest.mark.parametrize("slower", [1.5, 3, 10])
@pytest.mark.parametrize("num_bytes", [64 * 1024, MB, 24 * MB])
def test_one_slow_link_takes_what_its_events_do(
    num_nodes: int, latency_s: float, slower: float, num_bytes: int
):
    slow = {num_nodes - 1: GBIT.times(1 / slower)}
    network = Network(link=GBIT, links=slow, latency_s=latency_s)
    took_s = reduction(num_bytes, num_nodes, network, NO_COSTS).whole_s
    assert took_s == pytest.approx(followed_s(num_bytes, num_nodes, network), rel=0.06)


def test_latency_passes_while_a_slow_link_is_busy():
    slow = {15: GBIT.times(1 / 3)}
    near, far = (
        reduction(MB, 16, Network(link=GBIT, links=slow, latency_s=latency_s), NO_COSTS).whole_s
        for latency_s in (0.0, 0.001)
    )
    assert far - near < 0.25 * 30 * 0.001  # there are 30 hops


def test_several_slow_links_are_each_met_on_the_way_round():
    slow = {node: GBIT.times(1 / 4) for node in (2, 7, 8, 13)}
    network = Network(link=GBIT, links=slow, latency_s=0.001)
    took_s = reduction(MB, 16, network, NO_COSTS).whole_s
    assert took_s == pytest.approx(followed_s(MB, 16, network), rel=0.06)


def test_a_link_that_waits_saves_up_a_burst():
    network = Network(link=GBIT, latency_s=0.002, burst_s=0.0003)
    took_s = reduction(MB, 8, network, NO_COSTS).whole_s
    assert took_s == pytest.approx(followed_s(MB, 8, network), rel=0.03)
    assert took_s < reduction(MB, 8, Network(link=GBIT, latency_s=0.002), NO_COSTS).whole_s


def test_handling_passes_at_every_node_too():
    network, costs = Network(link=GBIT, latency_s=0.001), Costs(message_s=0.0005)
    took_s = reduction(MB, 8, network, costs).whole_s
    assert took_s == pytest.approx(followed_s(MB, 8, network, handled_s=0.001), rel=0.02)


def test_ways_are_counted_by_the_slower_of_their_ends():
    slow, narrow = GBIT.times(1 / 4), GBIT.times(1 / 2)
    assert links_between(Network(link=GBIT), 5) == {GBIT: 5}
    assert links_between(Network(link=GBIT, links={4: slow, 7: slow}), 5) == {GBIT: 3, slow: 2}
    racks = Network(link=GBIT, links={4: slow}, uplink=narrow, rack=2)
    assert links_between(racks, 6) == {GBIT: 2, narrow: 2, slow: 2}
    assert links_between(racks, 2) == {GBIT: 2}


@pytest.mark.parametrize("num_nodes", [2, 3, 6, 16])
@pytest.mark.parametrize("latency_s", [0.0, 0.001])
@pytest.mark.parametrize("slower", [1.0, 1.2, 1.5, 3.0])
def test_a_node_that_is_always_late_does_not_wait_for_what_it_passes_on(
    num_nodes: int, latency_s: float, slower: float
):
    """Of 4 MB at 1 Gbit a ring of six takes 56 ms; after one that is 40 ms late, some 30."""
    compute_s = [0.08] * (num_nodes - 1) + [0.08 * slower]
    network = Network(link=GBIT, latency_s=latency_s)
    situation = Situation(
        step=ComputeStep.of([(0.02, 0.06, 4 * MB)]),
        network=network,
        num_workers=num_nodes,
        num_nodes=num_nodes,
        slowness=tuple(each / 0.08 for each in compute_s),
    )
    predicted_s = forecast(AllReducePattern(), situation).step_s
    assert predicted_s == pytest.approx(every_s(4 * MB, compute_s, network), rel=0.05)


def test_two_that_are_equally_late_wait_for_each_other():
    network = Network(link=GBIT)
    compute_s = [0.08, 0.16, 0.08, 0.08, 0.16, 0.08]
    followed = every_s(4 * MB, compute_s, network)
    situation = Situation(
        step=ComputeStep.of([(0.02, 0.06, 4 * MB)]),
        network=network,
        num_workers=6,
        num_nodes=6,
        slowness=tuple(each / 0.08 for each in compute_s),
    )
    assert forecast(AllReducePattern(), situation).step_s == pytest.approx(followed, rel=0.1)


@pytest.mark.parametrize("num_nodes", [2, 3, 8, 16])
@pytest.mark.parametrize("compute_s", [0.01, 0.08, 0.3])
@pytest.mark.parametrize("latency_s", [0.0, 0.005])
def test_a_slow_link_is_busy_while_its_node_computes(
    num_nodes: int, compute_s: float, latency_s: float
):
    slow = {num_nodes - 1: GBIT.times(1 / 9)}
    network = Network(link=GBIT.times(1 / 3), links=slow, latency_s=latency_s)
    situation = Situation(
        step=ComputeStep.of([(compute_s / 4, 3 * compute_s / 4, 4 * MB)]),
        network=network,
        num_workers=num_nodes,
        num_nodes=num_nodes,
    )
    predicted_s = forecast(AllReducePattern(), situation).step_s
    followed = every_s(4 * MB, [compute_s] * num_nodes, network)
    assert predicted_s == pytest.approx(followed, rel=0.03)
    whole_s = reduction(4 * MB, num_nodes, network, NO_COSTS).whole_s
    assert predicted_s <= compute_s + whole_s + 1e-9


def test_a_ring_of_many_nodes_with_a_slow_link_is_arithmetic():
    network = Network(link=GBIT, links={7: GBIT.times(1 / 3)})
    situation = Situation(
        step=ComputeStep.of([(0.02, 0.06, 4 * MB)]),
        network=network,
        num_workers=10_000,
        num_nodes=10_000,
    )
    assert forecast(AllReducePattern(), situation).step_s > 0.08
