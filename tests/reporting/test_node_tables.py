"""Tables of nodes, their traffic and their processes: what was recorded, and nothing else."""

import polars
import pytest

from paceline.outcome.results import NodeTraffic, PairTraffic, ServerTotals, Traffic
from paceline.reporting import node_tables
from paceline.reporting.sides import sides_of
from tests.made_runs import made

TRAFFIC = Traffic(
    nodes=(
        NodeTraffic(
            node="node0",
            sent_bytes=10_100_000,
            expected_sent_bytes=10_000_000,
            sent_ratio=1.01,
            received_bytes=20_000_000,
            expected_received_bytes=20_000_000,
            received_ratio=1.0,
        ),
        NodeTraffic(
            node="node1",
            sent_bytes=0,
            expected_sent_bytes=0,
            sent_ratio=None,
            received_bytes=5,
            expected_received_bytes=0,
            received_ratio=None,
        ),
    ),
    pairs=(
        PairTraffic(sender="node0", receiver="node1", num_bytes=3_000_000),
        PairTraffic(sender="node1", receiver="node0", num_bytes=1_000_000),
    ),
)


def sampled(run, *samples, disk=True):
    """Give a run samples of its seats: phase, then for each seat CPU and bytes written so far."""
    rows = [
        {
            "node": "node0",
            "time_s": float(number),
            "phase": phase,
            "disk_read_bytes": 0 if disk else None,
            "cpu_percent": 0.0,
            "memory_bytes": 0,
            "seats": [
                {
                    "seat": seat,
                    "cpu_percent": float(cpu),
                    "disk_read_bytes": 0,
                    "disk_written_bytes": written,
                }
                for seat, (cpu, written) in seats.items()
            ],
        }
        for number, (phase, seats) in enumerate(samples)
    ]
    polars.DataFrame(rows, infer_schema_length=None).write_parquet(run.folder.nodes)
    return run


def by_process(*runs) -> dict[str, dict]:
    table = node_tables.processes(sides_of(runs))
    return {row["seat"]: row for row in table.frame.iter_rows(named=True)}


def test_traffic_stands_beside_theory_sent_and_received_apart(tmp_path):
    table = node_tables.traffic(sides_of([made(tmp_path, num_nodes=2, traffic=TRAFFIC)]))
    assert list(table.cells()) == [
        ["ring", "node0", "10.10", "10.00", "1.0100", "20.00", "20.00", "1.0000"],
        ["ring", "node1", "0.00", "0.00", "-", "0.00", "0.00", "-"],
    ]


def test_pairs_tell_who_sent_to_whom(tmp_path):
    run = made(tmp_path, num_nodes=2, traffic=TRAFFIC, worker_steps=300)
    table = node_tables.pairs(sides_of([run]))
    assert list(table.cells()) == [
        ["ring", "node0", "node1", "3.00", "75.0", "0.0300"],
        ["ring", "node1", "node0", "1.00", "25.0", "0.0100"],
    ]


@pytest.mark.parametrize("traffic", [None, Traffic(nodes=(), pairs=())])
def test_what_nobody_counted_has_no_table(tmp_path, traffic):
    sides = sides_of([made(tmp_path, traffic=traffic)])
    assert node_tables.traffic(sides) is None
    assert node_tables.pairs(sides) is None


def test_processes_are_judged_by_what_they_used_while_training(tmp_path):
    run = sampled(
        made(tmp_path, num_workers=2),
        ("starting", {"worker0": (5, 1_000_000), "worker1": (5, 0)}),
        ("training", {"worker0": (80, 3_000_000), "worker1": (50, 0)}),
        ("training", {"worker0": (100, 4_000_000), "worker1": (50, 0)}),
        ("ending", {"worker0": (10, 9_000_000), "worker1": (10, 0)}),
    )
    first, second = by_process(run).values()
    assert (first["cpu_mean"], first["cpu_peak"], first["disk_written"]) == (90, 100, 3_000_000)
    assert (second["cpu_mean"], second["disk_written"]) == (50, 0)


def test_a_short_run_has_its_mixed_samples(tmp_path):
    run = sampled(made(tmp_path, num_workers=1), ("mixed", {"worker0": (70, 5)}))
    (only,) = by_process(run).values()
    assert only["cpu_mean"] == 70
    assert "disk_written" not in only  # one sample tells of no growth


def test_a_disk_that_cannot_be_read_is_left_out(tmp_path):
    seats = [("training", {"worker0": (70, 0)}), ("training", {"worker0": (70, 0)})]
    run = sampled(made(tmp_path, num_workers=1), *seats, disk=False)
    assert not {"disk_read", "disk_written"} & set(by_process(run)["worker0"])


def test_servers_and_runs_without_samples_of_seats_are_shown_by_their_totals(tmp_path):
    server = ServerTotals(
        name="server0", updates=9, dropped=0, refused=0, cpu_s=1.5, apply_s=0.5, queue_s=0.1
    )
    rows = by_process(made(tmp_path, num_workers=1, servers=(server,)))
    assert list(rows) == ["worker0", "server0"]
    assert rows["server0"]["cpu_s"] == 1.5
    assert "cpu_mean" not in rows["server0"]


def test_seats_that_share_a_process_have_no_samples_of_their_own(tmp_path):
    run = sampled(made(tmp_path, num_workers=1), ("training", {}))
    assert "cpu_mean" not in by_process(run)["worker0"]
