"""Spans add up what was spent inside them, and nothing else."""

from time import perf_counter_ns

import pytest

from paceline.measure.clock import Clock
from paceline.measure.spans import Span


def spend(duration_ns: int) -> None:
    until_ns = perf_counter_ns() + duration_ns
    while perf_counter_ns() < until_ns:
        pass


def test_a_span_sums_the_times_inside_and_not_those_between():
    span = Span()
    inside_ns = 0
    began_ns = perf_counter_ns()
    for _ in range(5):
        with span:
            spend(200_000)
        inside_ns += span.ended_ns - span.began_ns
        spend(200_000)
    whole_ns = perf_counter_ns() - began_ns
    assert span.total_ns == inside_ns
    assert 5 * 200_000 <= span.total_ns <= whole_ns - 5 * 200_000


def test_taking_the_sum_starts_a_new_one():
    span = Span()
    with span:
        spend(1000)
    total_ns = span.total_ns
    assert span.take_s() == total_ns / 1e9 > 0
    assert span.take_s() == 0.0


def test_time_before_an_error_counts_and_the_error_is_not_hidden():
    span = Span()

    def fail() -> None:
        spend(1000)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), span:
        fail()
    assert span.total_ns >= 1000


def test_the_clock_stands_at_zero_until_training_starts_and_leaves_out_pauses():
    now_s = 1000.0
    clock = Clock(now=lambda: now_s)
    assert clock.now_s() == 0.0
    clock.start(990.0)
    assert clock.now_s() == 10.0
    clock.leave_out(4.0)
    clock.leave_out(1.0)
    assert clock.now_s() == 5.0
