"""The training clock under dilation: virtual seconds, wherever seconds are."""

import time

import pytest

from paceline.measure.clock import Clock, virtual


def test_a_dilated_clock_counts_virtual_seconds_and_is_told_real_ones():
    clock = Clock(4.0)
    start_s = time.monotonic() - 40
    clock.start(start_s)
    clock.leave_out(8)
    clock.pause(start_s + 28)
    assert clock.now_s() == pytest.approx(5)


def test_everything_in_seconds_becomes_virtual():
    counted = {
        "late_s": {"worker0": 8.0},
        "buckets": [{"num_bytes": 16, "run_s": 4.0}],
        "hidden_s": 2.0,
        "cpu_s": 4.0,
        "queue_s": None,
        "worker_steps": 4,
        "staleness": {"0": 4},
    }
    assert virtual(counted, 4.0) == {
        "late_s": {"worker0": 2.0},
        "buckets": [{"num_bytes": 16, "run_s": 1.0}],
        "hidden_s": 0.5,
        "cpu_s": 1.0,
        "queue_s": None,
        "worker_steps": 4,
        "staleness": {"0": 4},
    }
    assert virtual(counted, 1.0) == counted
