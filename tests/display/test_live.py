"""What the live view says of a run and of its nodes."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from paceline.display.live import headline, node_line, panel
from paceline.engine.progress import EXCHANGED, Pace, RunView, exchanged_rates, with_rates
from paceline.spec import RunSpec
from paceline.workloads.order import Order


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


def test_without_a_link_what_its_workers_exchange_is_said_and_called_so():
    rows = [
        {"time_s": at, "sent_bytes": num, "received_bytes": 2 * num}
        for at, num in ((1, 0), (2, 10**6))
    ]
    worker = with_rates(rows[0], rows[1], EXCHANGED)
    sample = usage(1.0, None, None, **exchanged_rates([worker, worker, {"time_s": 1.0}]))
    assert node_line("node0", sample, 2.0).endswith("  exchanged in   4.0  out   2.0 MB/s")


def test_what_a_strategy_of_ones_own_does_not_count_is_no_error():
    first = {"time_s": 1.0, "sent_bytes": None, "received_bytes": None}
    second = {"time_s": 2.0, "sent_bytes": 5, "received_bytes": None}
    third = {"time_s": 3.0, "sent_bytes": 7, "received_bytes": None}
    assert with_rates(first, second, EXCHANGED) == second
    assert with_rates(second, third, EXCHANGED) == {**third, "sent_bytes_per_s": 2.0}
    assert exchanged_rates([with_rates(second, third, EXCHANGED)]) == {}


def test_a_replayed_device_stands_in_the_place_of_the_processor():
    line = node_line("node0", usage(1.0, None, None, device_busy_percent=30.0), 2.0)
    assert "device ███░░░░░░░  30 %" in line


def a_quarter_done(**table) -> RunView:
    """A run of 40 seconds or steps, seen when a quarter of it is done, after ten seconds."""
    fields = {"workload": "resnet50-cifar10", "device": "replay:k80", **table}
    order = Order(num_rows=64, num_workers=1, batch=1, seed=0)
    progress = Pace(RunSpec.from_table(fields), order)
    known = {"phase": "training", "samples": 0, "loss": None, "metrics": {}}
    progress.view(time_s=5.0, worker_steps=5, global_steps=5, **known)
    return progress.view(time_s=10.0, worker_steps=10, global_steps=10, **known)


@pytest.mark.parametrize("length", [{"seconds": 40.0}, {"steps": 40}])
def test_the_time_left_of_a_dilated_run_is_real_and_its_own_is_called_virtual(length):
    view = a_quarter_done(**length, dilation=4.0)
    assert view.fraction == pytest.approx(0.25)
    assert view.left_s == pytest.approx(4 * 30.0)
    assert headline(view) == (
        "training · 10.0 virtual s · step 10 · 1 steps/virtual s · 2 min 00 s left"
    )


def test_without_dilation_a_second_is_a_second():
    view = a_quarter_done(steps=40)
    assert view.left_s == pytest.approx(30.0)
    assert headline(view) == "training · 10.0 s · step 10 · 1 steps/s · 30 s left"


def test_who_asked_to_stop_is_told_what_is_waited_for():
    view = replace(a_quarter_done(steps=40), phase="stopping")
    assert headline(view) == "stopping after this step; Ctrl-C once more to stop at once"


def test_in_80_columns_the_panel_breaks_between_words_and_cuts_nothing():
    sample = usage(1.0, None, None, device_busy_percent=30.0)
    nodes = {"node0": sample, "node1": sample | {"memory_bytes": 123_456_000_000}}
    view = replace(a_quarter_done(steps=40, dilation=4.0), loss=0.1234, nodes=nodes)
    title = (
        "resnet152-cifar10 · ps-async · emulated · 16 workers · replayed compute (k80), dilated 2x"
    )
    console = Console(file=io.StringIO(), width=80)
    console.print(panel(title, view, lambda _: 2.0))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(" ".join(lines).replace("━", " ").replace("╸", " ").split())
    assert "…" not in words
    for each in (*title.split(), "25 %", headline(view), "node1", "123,456 MB"):
        assert each in words
