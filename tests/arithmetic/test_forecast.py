"""One answer for any strategy: rate, limit, and the same beyond where simulation ends."""

from dataclasses import replace

import pytest

from paceline.arithmetic.costs import Costs
from paceline.arithmetic.exchange import AllReduce, Alone, Servers
from paceline.arithmetic.forecast import MOST_SIMULATED, Forecast, Situation, forecast
from paceline.arithmetic.memory import node_bytes
from paceline.arithmetic.network import LinkRate, Network
from tests.arithmetic.steps import LINK, MB, STEP

FAST = LinkRate(bits_per_s=1e15)


def at(num_nodes: int, exchange: object, link: LinkRate = LINK, **more: object) -> Forecast:
    network = Network(link=link, latency_s=more.pop("latency_s", 0.0))
    step = more.pop("step", STEP)
    return forecast(
        exchange,
        Situation(step=step, network=network, num_workers=num_nodes, num_nodes=num_nodes, **more),
    )


def test_those_alone_compute_as_often_as_there_are_workers():
    assert at(5, Alone()).worker_steps_per_s == pytest.approx(5.0)
    assert at(2, Alone(), slowness=(2.0,)).worker_steps_per_s == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("exchange", "more", "kind"),
    [
        (AllReduce(), {"link": FAST}, "compute"),
        (AllReduce(), {}, "link"),
        (AllReduce(), {"link": FAST, "latency_s": 0.5}, "latency"),
        (AllReduce(), {"link": FAST, "slowness": (8.0,)}, "stragglers"),
        (Servers(), {}, "link"),
        (Servers(), {"link": FAST}, "compute"),
        (Servers(), {"link": FAST, "costs": Costs(add_s_per_byte=1e-8)}, "server"),
        (Servers(averaged=False), {}, "link"),
    ],
)
def test_what_a_step_waits_for_is_named(exchange: object, more: dict[str, object], kind: str):
    assert at(8, exchange, **more).limit.kind == kind


def test_the_link_that_is_full_is_named():
    assert at(8, Servers()).limit.where.endswith("node0")
    assert at(8, Servers(apart=True)).limit.where.endswith("node8")


@pytest.mark.parametrize(
    "exchange",
    [
        Servers(apart=True),
        Servers(),
        Servers(overlap=True),
        Servers(num_servers=MOST_SIMULATED),
        Servers(num_servers=MOST_SIMULATED, overlap=True),
    ],
)
def test_closed_forms_take_over_where_simulation_ends(exchange: Servers):
    """With one node more the step may take a little longer, but does not jump."""
    last = at(MOST_SIMULATED - exchange.apart, exchange)
    more = replace(exchange, num_servers=exchange.num_servers + (exchange.num_servers > 1))
    beyond = at(MOST_SIMULATED + 1, more)
    assert beyond.step_s == pytest.approx(last.step_s, rel=0.02)


def test_ten_thousand_nodes_take_no_longer_than_ten():
    for exchange in (AllReduce(), Servers(), Servers(num_servers=10_000)):
        assert at(10_000, exchange).step_s > 1.0


def test_stragglers_cost_more_the_more_workers_there_are():
    step = replace(STEP, factors=(0.9, 1.0, 1.0, 1.0, 1.3))
    rates = [at(n, AllReduce(), link=FAST, step=step).step_s for n in (1, 4, 64)]
    assert rates[0] < rates[1] < rates[2] <= 1.3 + 1e-6


def test_memory_counts_what_the_fullest_node_keeps():
    ring = node_bytes(AllReduce(), 100 * MB, num_states=1, workers=1, num_workers=4)
    assert ring == 300 * MB
    one = node_bytes(Servers(), 100 * MB, num_states=1, workers=1, num_workers=4)
    assert one == 200 * MB + 200 * MB + 4 * (8 << 20)
    assert node_bytes(Alone(), 100 * MB, num_states=0, workers=2, num_workers=2) == 400 * MB
