"""One answer for any strategy: rate, limit, and the same beyond where simulation ends."""

from dataclasses import replace

import pytest

from paceline.arithmetic.costs import Costs
from paceline.arithmetic.events import Simulation
from paceline.arithmetic.exchange import (
    AllReducePattern,
    ExchangePattern,
    NoExchange,
    Servers,
    as_in_script,
)
from paceline.arithmetic.forecast import MOST_SIMULATED, Forecast, Situation, forecast
from paceline.arithmetic.memory import node_bytes
from paceline.arithmetic.network import LinkRate, Network
from paceline.arithmetic.rows import RowTraffic
from paceline.arithmetic.setting import Setting
from paceline.arithmetic.step import ComputeStep, even_step
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
    assert at(5, NoExchange()).worker_steps_per_s == pytest.approx(5.0)
    assert at(2, NoExchange(), slowness=(2.0,)).worker_steps_per_s == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("exchange", "more", "kind"),
    [
        (AllReducePattern(), {"link": FAST}, "compute"),
        (AllReducePattern(), {}, "link"),
        (AllReducePattern(), {"link": FAST, "latency_s": 0.5}, "latency"),
        (AllReducePattern(), {"link": FAST, "slowness": (8.0,)}, "stragglers"),
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


RACKED = Network(
    link=LinkRate(bits_per_s=1e10), uplink=LinkRate(bits_per_s=2e9), rack=8, latency_s=0.0
)


def racked(num_nodes: int, exchange: object, network: Network = RACKED) -> Forecast:
    return forecast(
        exchange,
        Situation(step=STEP, network=network, num_workers=num_nodes, num_nodes=num_nodes),
    )


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("nodes", [(48, 64), (256, 257)])
@pytest.mark.parametrize("is_one", [True, False])
def test_racks_do_not_vanish_where_they_are_many(overlap, averaged, nodes, is_one):
    """What crosses an uplink grows with the workers, one server's in proportion."""
    made, crossing = [], []
    for num_nodes in nodes:
        servers = 1 if is_one else num_nodes
        exchange = Servers(num_servers=servers, overlap=overlap, averaged=averaged)
        made.append(racked(num_nodes, exchange).step_s)
        outside = num_nodes - RACKED.rack
        crossing.append(outside if is_one else 2 * RACKED.rack * outside / num_nodes)
    assert made[1] / made[0] == pytest.approx(crossing[1] / crossing[0], rel=0.1)


@pytest.mark.parametrize("num_servers", [1, 16])
@pytest.mark.parametrize("overlap", [False, True])
def test_arithmetic_of_racks_is_what_small_chunks_do_one_by_one(num_servers: int, overlap: bool):
    exchange = Servers(num_servers=num_servers, overlap=overlap)
    setting = Setting(
        step=STEP,
        exchange=exchange,
        num_workers=16,
        num_nodes=16,
        network=RACKED,
        costs=Costs(),
    )
    followed_s = 16 / Simulation(setting, 300_000).run().worker_steps_per_s
    assert racked(16, exchange).step_s == pytest.approx(followed_s, rel=0.1)


@pytest.mark.parametrize("num_servers", [1, 16])
def test_racks_make_nothing_quicker(num_servers: int):
    """What is found by simulating processors is not lost where racks are arithmetic."""
    costs = Costs(message_s=1e-3, copy_s_per_byte=1e-9)
    wide = replace(RACKED, uplink=LinkRate(bits_per_s=1e15))
    free = replace(RACKED, uplink=None, rack=None)
    exchange = Servers(num_servers=num_servers, overlap=True)
    with_racks, without = (
        forecast(
            exchange,
            Situation(step=STEP, network=each, num_workers=16, num_nodes=16, costs=costs),
        ).step_s
        for each in (wide, free)
    )
    assert with_racks >= without


def test_the_uplinks_are_named_where_they_are_what_a_step_waits_for():
    assert racked(64, Servers(num_servers=64)).limit.where == "uplinks of racks"


def test_halving_pays_for_all_of_a_rack_that_cross_its_uplink_at_once():
    """By a ring one node of a rack sends to the next one; by halving all eight do."""
    halving, ring = (racked(64, AllReducePattern(algorithm=name)) for name in ("halving", "ring"))
    assert halving.step_s > 3 * ring.step_s
    free = replace(RACKED, uplink=None, rack=None)
    assert racked(64, AllReducePattern(algorithm="halving"), free).step_s < 0.5 * halving.step_s


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("link", [LINK, LINK.times(100)])
@pytest.mark.parametrize("num_servers", [1, 256])
def test_asynchronous_servers_do_not_jump_where_simulation_ends(whole, link, num_servers):
    """A push that counts as a whole is answered when all of it is in, beyond 256 nodes too."""
    exchange = Servers(num_servers=num_servers, averaged=False, overlap=True, whole=whole)
    last = at(256, exchange, link=link)
    beyond = at(257, replace(exchange, num_servers=num_servers + (num_servers > 1)), link=link)
    # One by one a few steps only are followed: of one server's workers that is less certain.
    assert beyond.step_s == pytest.approx(last.step_s, rel=0.02 if num_servers > 1 else 0.3)


def test_a_script_exchanges_after_its_backward_pass():
    for exchange in (AllReducePattern(), Servers(overlap=True, num_servers=4)):
        hidden, shown = (at(4, each).step_s for each in (exchange, as_in_script(exchange)))
        assert shown > hidden + 0.3
    assert as_in_script(NoExchange()) == NoExchange()


def test_ten_thousand_nodes_take_no_longer_than_ten():
    for exchange in (AllReducePattern(), Servers(), Servers(num_servers=10_000)):
        assert at(10_000, exchange).step_s > 1.0


def test_stragglers_cost_more_the_more_workers_there_are():
    step = replace(STEP, factors=(0.9, 1.0, 1.0, 1.0, 1.3))
    rates = [at(n, AllReducePattern(), link=FAST, step=step).step_s for n in (1, 4, 64)]
    assert rates[0] < rates[1] < rates[2] <= 1.3 + 1e-6


HUNDRED = even_step(1.0, 100 * MB)


def keeps(exchange: ExchangePattern, step: ComputeStep = HUNDRED, **more: int) -> float:
    return node_bytes(exchange, step, **{"num_states": 1, "workers": 1, "num_workers": 4, **more})


def test_memory_counts_what_the_fullest_node_keeps():
    assert keeps(AllReducePattern()) == 300 * MB
    assert keeps(Servers()) == 200 * MB + 200 * MB + 4 * (8 << 20)
    assert keeps(NoExchange(), num_states=0, workers=2, num_workers=2) == 400 * MB


def test_pushes_that_wait_for_their_word_or_for_other_workers_may_be_there_whole():
    each = Servers(averaged=False, overlap=True, whole=True)
    assert keeps(each) == 200 * MB + 200 * MB + 4 * 100 * MB
    # Of an average also what was there before, in case a worker's gradients are not finite.
    assert keeps(Servers(overlap=True)) == keeps(each) + 200 * MB


def test_of_a_sparse_model_a_worker_keeps_only_the_rows_of_its_batch():
    few = RowTraffic(num_rows=1000, row_bytes=4, table_bytes=100 * MB)
    sparse = replace(even_step(1.0, 4), rows=few)
    assert keeps(Servers(apart=True), sparse, num_states=0) == pytest.approx(100 * MB, rel=0.01)
    assert keeps(Servers(apart=True, moves_rows=False), sparse, num_states=0) > 120 * MB
    assert keeps(AllReducePattern(), sparse, num_states=0) == pytest.approx(200 * MB)


ROWS = RowTraffic(num_rows=1e6, row_bytes=4, table_bytes=400 * MB)
SPARSE = replace(even_step(0.1, 4), rows=ROWS)


@pytest.mark.parametrize(
    "exchange",
    [
        Servers(),
        Servers(apart=True),
        Servers(num_servers=6),
        Servers(num_servers=6, averaged=False),
    ],
)
def test_closed_forms_know_of_rows_what_simulation_does(exchange: Servers):
    """Six machines: a million rows are 20 MB up and 4 MB down, not the four bytes beside them."""
    network = Network(link=LINK, latency_s=0.01)
    costs = Costs(message_s=1e-4, apply_s_per_byte=1e-9, add_s_per_byte=1e-9)
    situation = Situation(step=SPARSE, network=network, num_workers=6, num_nodes=6, costs=costs)
    followed, written = (
        forecast(exchange, situation, simulate=each).step_s for each in (True, False)
    )
    assert written == pytest.approx(followed, rel=0.15)
    assert written > 0.3


def test_a_server_applies_the_values_of_rows_and_not_their_names():
    costs = Costs(apply_s_per_byte=1e-6)
    situation = Situation(
        step=SPARSE, network=Network(link=FAST), num_workers=1, num_nodes=1, costs=costs
    )
    for simulate in (True, False):
        made = forecast(Servers(apart=True), situation, simulate=simulate)
        assert made.step_s == pytest.approx(0.1 + 4.0, rel=0.01)
