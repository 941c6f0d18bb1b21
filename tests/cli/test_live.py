"""What the live view says of a node."""

import pytest

from paceline.cli.live import node_line
from paceline.progress import with_rates


def usage(time_s: float, sent: int | None, received: int | None, **more) -> dict:
    return {
        "time_s": time_s, "cpu_percent": 100.0, "memory_bytes": 250_000_000,
        "net_sent_bytes": sent, "net_received_bytes": received, **more,
    }  # fmt: skip


def test_rates_are_the_growth_since_the_last_sample():
    first = with_rates(None, usage(1.0, 0, 0))
    assert "net_sent_bytes_per_s" not in first
    second = with_rates(first, usage(1.5, 5_000_000, 1_000_000))
    assert second["net_sent_bytes_per_s"] == pytest.approx(10e6)
    assert second["net_received_bytes_per_s"] == pytest.approx(2e6)
    assert with_rates(second, usage(1.5, 6_000_000, 1_000_000)) == usage(1.5, 6_000_000, 1_000_000)


def test_a_node_with_a_link_says_what_goes_in_and_out():
    sample = with_rates(usage(1.0, 0, 0), usage(1.5, 5_000_000, 1_000_000))
    line = node_line("node0", sample, num_cores=2.0)
    assert line == "node0  CPU █████░░░░░ 100 %  memory 250 MB  in   2.0  out  10.0 MB/s"


def test_a_node_without_one_does_not():
    line = node_line("node0", with_rates(usage(1.0, None, None), usage(1.5, None, None)), 1.0)
    assert line == "node0  CPU ██████████ 100 %  memory 250 MB"


def test_a_replayed_device_stands_in_the_place_of_the_processor():
    line = node_line("node0", usage(1.0, None, None, device_busy_percent=30.0), 2.0)
    assert "device ███░░░░░░░  30 %" in line
