from __future__ import annotations

import pytest

from paceline.verdict import all_parts, run_parts
from tests.verdict.made import result, server, worker


class TestParts:
    def test_their_sum_is_the_workers_time(self):
        one = worker(0, load_s=1.0, compute_s=4.0, exchange_s=4.5, wait_s=1.0, apply_s=0.5)
        parts = all_parts(result(one))["worker0"]
        assert parts.total_s == pytest.approx(10.0)
        assert parts.transfer_s == pytest.approx(3.0)
        assert parts.other_s == pytest.approx(0.5)

    def test_alone_an_exchange_is_the_update(self):
        parts = all_parts(result(worker(0, compute_s=9.0, exchange_s=1.0)))["worker0"]
        assert parts.apply_s == 1.0
        assert parts.transfer_s == 0.0

    def test_a_worker_that_was_killed_applied_as_long_a_step_as_others(self):
        killed = worker(0, exchange_s=4.0, worker_steps=50, sent_bytes=9)
        told = worker(1, exchange_s=5.0, wait_s=1.0, apply_s=0.5, sent_bytes=9)
        parts = all_parts(result(killed, told))["worker0"]
        assert (parts.apply_s, parts.transfer_s) == (pytest.approx(0.25), pytest.approx(3.75))
        assert all_parts(result(killed))["worker0"].apply_s == 0.0

    def test_a_worker_waits_for_the_slowest_of_several_servers(self):
        servers = (server(0, apply_s=0.2), server(1, apply_s=1.0))
        one = worker(0, exchange_s=5.0, queue_s=2.0)
        parts = all_parts(result(one, servers=servers))["worker0"]
        assert parts.apply_s == pytest.approx(1.0)
        assert parts.queue_s == 2.0
        assert parts.transfer_s == pytest.approx(2.0)

    def test_no_more_is_taken_out_of_an_exchange_than_it_took(self):
        one = worker(0, exchange_s=1.0, wait_s=3.0, queue_s=2.0)
        parts = all_parts(result(one, servers=(server(),)))["worker0"]
        assert (parts.wait_s, parts.apply_s, parts.queue_s, parts.transfer_s) == (1.0, 0, 0, 0)

    def test_a_worker_without_rows_has_none(self):
        assert all_parts(result(worker(0, load_s=None))) == {}

    def test_a_run_has_the_sum(self):
        parts = run_parts(result(worker(0, compute_s=4.0), worker(1, compute_s=5.0)))
        assert parts.compute_s == 9.0
