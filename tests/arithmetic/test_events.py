"""The simulation agrees with pencil and paper where that is exact, and goes where it is not."""

from dataclasses import replace
from itertools import pairwise

import pytest

from paceline.arithmetic.closed_form import ps_async_steps_per_s, ps_sync_step_s
from paceline.arithmetic.costs import NO_COSTS, Costs
from paceline.arithmetic.events import Simulation
from paceline.arithmetic.exchange import Servers
from paceline.arithmetic.forecast import Situation, forecast
from paceline.arithmetic.network import LinkRate, Network
from paceline.arithmetic.rows import RowTraffic
from paceline.arithmetic.setting import Setting, Simulated
from paceline.arithmetic.spread import expected_slowest
from paceline.arithmetic.step import even_step
from tests.arithmetic.steps import LINK, MB, STEP

STRAIGHT = Network(link=LINK)


def simulated(
    num_workers: int,
    network: Network = STRAIGHT,
    *,
    costs: Costs = NO_COSTS,
    num_nodes: int | None = None,
    slowness: tuple[float, ...] = (),
    factors: tuple[float, ...] = (),
    **exchange: object,
) -> Simulated:
    setting = Setting(
        step=replace(STEP, factors=factors),
        exchange=Servers(**exchange),
        num_workers=num_workers,
        num_nodes=num_nodes or num_workers,
        network=network,
        costs=costs,
        slowness=slowness,
    )
    return Simulation(setting).run()


def step_s(num_workers: int, *args: Network, **more: object) -> float:
    return num_workers / simulated(num_workers, *args, **more).worker_steps_per_s


@pytest.mark.parametrize("num_workers", [1, 2, 3, 6, 16, 64, 256])
@pytest.mark.parametrize("apart", [False, True])
def test_a_server_that_averages_takes_what_the_closed_form_says(num_workers: int, apart: bool):
    expected = ps_sync_step_s(STEP, LINK, num_workers, separate=apart)
    assert step_s(num_workers, apart=apart) == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("num_workers", [2, 4, 16, 256])
def test_a_server_beside_every_worker_moves_as_much_as_a_ring(num_workers: int):
    each_way = 2 * (num_workers - 1) / num_workers
    assert step_s(num_workers, num_servers=num_workers) == pytest.approx(
        1.0 + 1.2 * each_way, rel=0.01
    )


@pytest.mark.parametrize("num_workers", [2, 4, 16])
def test_overlap_begins_with_the_first_gradient(num_workers: int):
    each_way = 2 * (num_workers - 1) / num_workers
    took = step_s(num_workers, num_servers=num_workers, overlap=True)
    assert 1.2 * each_way <= took <= 0.6 + 1.2 * each_way + 0.02


def test_overlap_never_takes_longer():
    for num_workers in (2, 5):
        for apart in (False, True):
            for averaged in (False, True):
                how = {"apart": apart, "averaged": averaged}
                plain = step_s(num_workers, **how)
                assert step_s(num_workers, overlap=True, **how) <= 1.001 * plain


def test_with_links_that_cost_nothing_only_computing_is_left():
    fast = Network(link=LinkRate(bits_per_s=1e15))
    for how in ({}, {"averaged": False}, {"num_servers": 4}, {"overlap": True}):
        assert step_s(4, fast, **how) == pytest.approx(1.0, rel=1e-3)


def test_asynchronous_workers_are_between_in_step_and_spread():
    for num_workers in (2, 4, 6):
        found = simulated(num_workers, apart=True, averaged=False).worker_steps_per_s
        least = ps_async_steps_per_s(STEP, LINK, num_workers, separate=True)
        most = ps_async_steps_per_s(STEP, LINK, num_workers, separate=True, spread=True)
        assert 0.99 * least <= found <= 1.01 * most


def test_asynchronous_workers_on_fast_links_do_not_wait_for_a_slow_one():
    fast = Network(link=LinkRate(bits_per_s=1e15))
    free = simulated(4, fast, averaged=False, slowness=(4.0,)).worker_steps_per_s
    held = simulated(4, fast, averaged=True, slowness=(4.0,)).worker_steps_per_s
    assert free == pytest.approx(3 + 1 / 4, rel=0.05)
    assert held == pytest.approx(4 / 4, rel=0.01)


def test_bounded_staleness_lies_between():
    fast = Network(link=LinkRate(bits_per_s=1e15))
    rates = [
        simulated(4, fast, averaged=False, slowness=(4.0,), staleness=bound).worker_steps_per_s
        for bound in (0, 2, None)
    ]
    assert rates[0] == pytest.approx(1.0, rel=0.05)
    assert all(slow <= 1.01 * quick for slow, quick in pairwise(rates))


def test_a_backup_worker_spares_the_others_a_slow_one():
    fast = Network(link=LinkRate(bits_per_s=1e15))
    waiting = step_s(4, fast, slowness=(3.0,))
    without = step_s(4, fast, slowness=(3.0,), backup=1)
    assert waiting == pytest.approx(3.0, rel=0.01)
    assert without < 1.4


def test_steps_that_vary_cost_those_in_step_the_slowest_of_all():
    fast = Network(link=LinkRate(bits_per_s=1e15))
    assert step_s(8, fast, factors=(0.5, 1.5)) == pytest.approx(1.5 - 1 / 256, rel=1e-3)
    assert step_s(8, fast, factors=(0.5, 1.5), averaged=False) == pytest.approx(1.0, rel=0.15)


def test_steps_that_vary_of_nodes_that_are_slow_need_no_luck():
    """Too few steps are followed for draws to be typical."""
    fast = Network(link=LinkRate(bits_per_s=1e15))
    took_s = step_s(4, fast, factors=(0.5, 1.0, 1.5), slowness=(1.0, 1.0, 1.0, 2.0))
    assert took_s == pytest.approx(expected_slowest((0.5, 1.0, 1.5), [1, 1, 1, 2]), rel=1e-3)


def test_a_slow_link_holds_up_a_synchronous_update_only():
    slow = Network(link=LINK, links={1: LinkRate(bits_per_s=LINK.bits_per_s / 10)})
    assert step_s(3, slow, apart=True) >= 1.0 + 12.0
    free = simulated(3, slow, apart=True, averaged=False).worker_steps_per_s
    assert free > 2 * 3 / step_s(3, slow, apart=True)


def test_latency_is_waited_for_twice():
    delayed = replace(STRAIGHT, latency_s=0.01)
    assert step_s(4, delayed) == pytest.approx(step_s(4) + 0.02, rel=1e-3)


def test_a_window_of_chunks_does_not_fill_a_long_link():
    far = replace(STRAIGHT, latency_s=0.5)
    assert step_s(1, far, apart=True) > 1.0 + 120 / 8


def test_racks_share_an_uplink():
    narrow = Network(link=LINK, uplink=LINK, rack=2)
    wide = Network(link=LINK, uplink=LinkRate(bits_per_s=1e15), rack=2)
    assert step_s(4, wide) == pytest.approx(step_s(4), rel=0.03)
    spread = {"num_servers": 4}
    assert step_s(4, wide, **spread) == pytest.approx(1.0 + 1.8, rel=0.06)
    assert step_s(4, narrow, **spread) == pytest.approx(1.0 + 2.4, rel=0.06)


def test_a_servers_processor_can_be_what_limits():
    fast = Network(link=LinkRate(bits_per_s=1e15))
    costs = Costs(add_s_per_byte=5e-9, apply_s_per_byte=5e-9)
    took = simulated(6, fast, costs=costs)
    assert 6 / took.worker_steps_per_s == pytest.approx(1.0 + 7 * 120 * MB * 5e-9, rel=0.02)
    assert took.busy["server0"] == pytest.approx(0.8, abs=0.05)
    spread = simulated(6, fast, costs=costs, num_servers=6)
    assert 6 / spread.worker_steps_per_s == pytest.approx(1.0 + 0.7, rel=0.08)


def test_several_workers_of_a_node_share_its_link():
    alone = step_s(4, apart=True, num_servers=4)
    shared = step_s(4, apart=True, num_servers=4, num_nodes=2)
    assert alone == pytest.approx(1.0 + 1.2, rel=0.02)
    assert shared == pytest.approx(1.0 + 2.4, rel=0.03)


def test_a_push_that_is_answered_whole_waits_for_its_last_chunk():
    at_once = step_s(1, apart=True, averaged=False, overlap=True)
    whole = step_s(1, apart=True, averaged=False, overlap=True, whole=True)
    assert whole > 1.2 * at_once


def test_an_overlapped_step_takes_no_longer_than_one_after_the_other():
    took = step_s(4, num_servers=4, overlap=True)
    assert 1.2 * 1.5 <= took <= 0.6 + 1.2 * 1.5 + 0.03


def test_rows_travel_in_place_of_their_table():
    """Ten thousand rows up with their numbers twice, their values down, and one more way there."""
    rows = RowTraffic(num_rows=1e6, row_bytes=4, table_bytes=400 * MB)
    step = replace(even_step(0.1, 4), rows=rows)
    network = Network(link=LINK, latency_s=0.01)

    def took_s(exchange: Servers) -> float:
        situation = Situation(step=step, network=network, num_workers=1, num_nodes=1)
        return forecast(exchange, situation).step_s

    sparse = took_s(Servers(apart=True))
    assert sparse == pytest.approx(0.1 + 0.20 + 0.04 + 4 * 0.01, rel=0.02)
    assert took_s(Servers(apart=True, moves_rows=False)) > 4.0


def test_a_model_of_one_chunk_is_exchanged_when_all_of_it_is_computed():
    exchange = Servers(overlap=True)
    assert not exchange.overlaps(200_000)
    assert exchange.overlaps(400_000)
