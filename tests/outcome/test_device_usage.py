"""How busy replayed devices were over time follows from the workers' rows."""

import pytest

from paceline.outcome.device_usage import last_busy_percent, with_device_usage


def step(seat: str, time_s: float, compute_s: float) -> dict:
    return {"seat": seat, "time_s": time_s, "compute_s": compute_s, "load_s": 0, "exchange_s": 0.5}


SEATS = {"node0": ["worker0", "server0"], "node1": ["worker1"], "node2": ["server1"]}
STEPS = [step("worker0", 1.0, 1.0), step("worker0", 3.0, 1.0), step("worker1", 2.0, 0.5)]


def busy(node: str, *times_s: float) -> list[float | None]:
    rows = [{"node": node, "time_s": each, "cpu_percent": 1.0} for each in times_s]
    return [row["device_busy_percent"] for row in with_device_usage(rows, STEPS, SEATS)]


def test_a_samples_share_is_that_of_the_steps_it_covers():
    assert busy("node0", 1.0, 2.0, 3.0) == pytest.approx([100, 50, 50])


def test_a_sample_across_two_rows_has_part_of_each():
    assert busy("node0", 0.5, 1.5) == pytest.approx([100, 75])


def test_after_the_last_row_nothing_is_computed():
    assert busy("node1", 2.0, 4.0) == pytest.approx([25, 0])


def test_a_clock_that_stands_still_and_a_node_without_workers():
    assert busy("node1", 2.0, 2.0) == pytest.approx([25, 0])
    assert busy("node2", 1.0) == [None]


def test_a_row_that_is_not_later_than_the_one_before_is_left_out():
    steps = [*STEPS, step("worker0", 3.0, 9.0), step("worker0", 4.0, 9.0)]
    rows = [{"node": "node0", "time_s": each} for each in (3.0, 4.0)]
    made = with_device_usage(rows, steps, SEATS)
    assert [row["device_busy_percent"] for row in made] == pytest.approx([200 / 3, 100])


def test_a_long_run_is_no_matter_of_minutes():
    """Rows times samples would be thousands of millions of looks, and more than a test may take."""
    many = 50_000
    steps = [step("worker0", 0.1 * number, 0.05) for number in range(1, many + 1)]
    rows = [{"node": "node0", "time_s": 0.1 * number} for number in range(1, many + 1)]
    made = with_device_usage(rows, steps, SEATS)
    assert {round(row["device_busy_percent"], 3) for row in made} == {50.0}


def test_lately_is_the_mean_of_the_workers_last_rows():
    assert last_busy_percent([STEPS[0], STEPS[2]]) == pytest.approx((200 / 3 + 50) / 2)
    assert last_busy_percent([]) is None
