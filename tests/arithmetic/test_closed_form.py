"""The closed form says what one gets with pencil and paper."""

import pytest

from paceline.arithmetic.all_reduce import ring_step_s
from paceline.arithmetic.closed_form import (
    ps_async_steps_per_s,
    ps_sync_step_s,
    servers_step_s,
)
from paceline.arithmetic.exchange import Servers
from paceline.arithmetic.network import PAYLOAD_SHARE, LinkRate
from paceline.arithmetic.step import ComputeStep

MB = 1_000_000
# Carries 100 MB of payload a second.
LINK = LinkRate(bits_per_s=8 * 100 * MB / PAYLOAD_SHARE)
# One second; the last layer's 100 MB are ready after 0.6 s, the first one's 20 MB at the end.
STEP = ComputeStep.of([(0.2, 0.4, 20 * MB), (0.2, 0.2, 100 * MB)])
FINE = 1  # chunks so small that the last one does not count


def test_a_step_knows_when_its_gradients_are_ready():
    assert STEP.compute_s == pytest.approx(1.0)
    assert STEP.num_bytes == 120 * MB
    assert [each.num_bytes for each in STEP.gradients] == [100 * MB, 20 * MB]
    assert [each.ready_s for each in STEP.gradients] == pytest.approx([0.6, 1.0])


def test_a_ring_of_one_only_computes():
    assert ring_step_s(STEP, LINK, 1) == pytest.approx(1.0)


@pytest.mark.parametrize("num_workers", [2, 4, 6])
def test_a_ring_sends_what_is_ready_while_the_rest_is_computed(num_workers: int):
    each_way = 2 * (num_workers - 1) / num_workers
    assert ring_step_s(STEP, LINK, num_workers) == pytest.approx(0.6 + 1.2 * each_way, rel=1e-3)


def test_a_ring_with_a_fast_link_hides_all_but_its_last_bucket():
    fast = LinkRate(bits_per_s=100 * LINK.bits_per_s)
    assert ring_step_s(STEP, fast, 2) == pytest.approx(1.0 + 0.002)


def test_gradients_of_one_bucket_wait_for_each_other():
    assert ring_step_s(STEP, LINK, 2, bucket_bytes=120 * MB) == pytest.approx(2.2, rel=1e-3)


@pytest.mark.parametrize("num_workers", [1, 2, 6])
def test_a_separate_server_takes_in_every_workers_gradient_unhidden(num_workers: int):
    predicted = ps_sync_step_s(STEP, LINK, num_workers, separate=True, chunk_bytes=FINE)
    assert predicted == pytest.approx(1.0 + 1.2 * num_workers, rel=1e-6)


def test_a_server_beside_a_worker_takes_in_one_gradient_less():
    assert ps_sync_step_s(STEP, LINK, 1) == pytest.approx(1.0)
    predicted = ps_sync_step_s(STEP, LINK, 3, chunk_bytes=FINE)
    assert predicted == pytest.approx(1.0 + 2.4, rel=1e-6)


def test_the_last_chunk_goes_back_when_all_is_in():
    predicted = ps_sync_step_s(STEP, LINK, 2, separate=True, chunk_bytes=10 * MB)
    assert predicted == pytest.approx(1.0 + 2.4 + 0.2)


def test_several_separate_servers_share_the_load_until_a_workers_own_link_is_full():
    for num_servers, crossing in ((2, 3.0), (6, 1.0), (12, 1.0)):
        predicted = ps_sync_step_s(
            STEP, LINK, 6, num_servers=num_servers, separate=True, chunk_bytes=FINE
        )
        assert predicted == pytest.approx(1.0 + 1.2 * crossing, rel=1e-6)


@pytest.mark.parametrize("num_workers", [2, 4])
def test_of_a_whole_push_a_server_beside_its_worker_needs_no_link(num_workers: int):
    spread = Servers(num_servers=num_workers, averaged=False, overlap=True, whole=True)
    crosses_s = 1.2 * (num_workers - 1) / num_workers
    # There from 0.6 s on, and back, but for what the first layer's forward pass hides.
    assert servers_step_s(STEP, LINK, num_workers, spread) == pytest.approx(
        0.6 + 2 * crosses_s - 0.2
    )


def test_asynchronous_workers_in_step_are_as_quick_as_synchronous_ones():
    together = ps_async_steps_per_s(STEP, LINK, 6, separate=True)
    assert together == pytest.approx(6 / ps_sync_step_s(STEP, LINK, 6, separate=True))


def test_spread_ones_are_bounded_by_their_cycle_and_then_by_the_servers_link():
    few = ps_async_steps_per_s(STEP, LINK, 1, separate=True, chunk_bytes=FINE, spread=True)
    many = ps_async_steps_per_s(STEP, LINK, 6, separate=True, chunk_bytes=FINE, spread=True)
    assert few == pytest.approx(1 / 2.2, rel=1e-6)
    assert many == pytest.approx(1 / 1.2)


def test_an_asynchronous_worker_beside_the_server_only_computes():
    assert ps_async_steps_per_s(STEP, LINK, 1) == pytest.approx(1.0)
    predicted = ps_async_steps_per_s(STEP, LINK, 2, chunk_bytes=FINE)
    assert predicted == pytest.approx(1.0 + 1 / 2.2, rel=1e-6)
