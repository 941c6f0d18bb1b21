"""How much links send at once, and the lumps that fit."""

import pytest

from paceline.clusters.emulated.bursts import Bursts

GBIT = 1e9


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 6, 16])
@pytest.mark.parametrize("bits_per_s", [100e3, 1e6, 10e6, 100e6, 500e6, GBIT, 2 * GBIT, 34 * GBIT])
def test_a_burst_is_a_few_milliseconds_and_holds_two_lumps(bits_per_s: float, num_nodes: int):
    bursts = Bursts([bits_per_s] * num_nodes)
    burst_s = 8 * bursts.of(bits_per_s) / bits_per_s
    assert burst_s >= 0.001
    assert burst_s <= 0.005001 or bursts.of(bits_per_s) == 8192  # a few packets go in any case
    assert 2 * bursts.lump_bytes <= bursts.of(bits_per_s)


def test_the_less_there_is_to_carry_the_truer_the_links():
    times = [8 * Bursts([GBIT] * nodes).of(GBIT) / GBIT for nodes in (1, 2, 3, 4, 6)]
    assert times == sorted(times)
    assert times[0] == pytest.approx(0.001)
    assert times[-1] == pytest.approx(0.004)


def test_all_nodes_together_send_no_more_lumps_than_a_small_host_carries():
    for rates in ([GBIT] * 3, [GBIT] * 6, [2 * GBIT] * 6):
        lumps_per_s = sum(rates) / 8 / Bursts(rates).lump_bytes
        assert lumps_per_s == pytest.approx(3000, rel=0.01)


def test_a_slow_link_among_fast_ones_makes_all_lumps_small():
    bursts = Bursts([10 * GBIT, 1e6])
    assert bursts.lump_bytes == bursts.of(1e6) // 2 == 4096
    assert bursts.of(10 * GBIT) == 1_250_000
