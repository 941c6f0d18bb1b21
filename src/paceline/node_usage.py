"""What a node used while its seats trained, from the rows its monitor wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from paceline.results import Facts, NodeUsage, WorkerTotals
from paceline.traffic import NodeCount

Row = dict[str, Any]


def node_usage(
    name: str,
    facts: Facts,
    every: list[Row],
    workers: tuple[WorkerTotals, ...],
    network: Row,
) -> NodeUsage:
    """Sum up a node's rows of the time in which its seats trained."""
    phases = {row["phase"] for row in every}
    phase = "training" if "training" in phases else "mixed"  # too short for a whole sample
    rows = [row for row in every if row["phase"] == phase]
    usage = NodeUsage(
        name=name,
        seats=tuple(facts.seats[name]),
        **network,
        device_busy_percent=_device_busy_percent(facts.seats[name], workers),
    )
    if not rows:
        return usage
    cpu = [row["cpu_percent"] for row in rows]
    # Seats that have left hold nothing: that says nothing about what they took.
    memory = [row["memory_bytes"] for row in rows if row["memory_bytes"]]
    mean = sum(cpu) / len(cpu)
    return replace(
        usage,
        cpu_percent_mean=mean,
        cpu_percent_peak=max(cpu),
        cpu_node_percent_mean=mean / facts.num_cores[name],
        cpu_node_percent_peak=max(cpu) / facts.num_cores[name],
        memory_mean_bytes=round(sum(memory) / len(memory)) if memory else None,
        memory_peak_bytes=max(memory, default=None),
        disk_read_bytes=_growth(every, phase, "disk_read_bytes"),
        disk_written_bytes=_growth(every, phase, "disk_written_bytes"),
    )


def _device_busy_percent(seats: list[str], workers: tuple[WorkerTotals, ...]) -> float | None:
    shares = [
        100 * each.device_busy_s / each.train_s
        for each in workers
        if each.name in seats and each.device_busy_s is not None and each.train_s
    ]
    return sum(shares) / len(shares) if shares else None


def link_fields(link: Mapping[str, float]) -> Row:
    """What was asked of a node's link, and what it did before the run."""
    return {
        "link_bits_per_s": link.get("asked"),
        "link_sent_bits_per_s": link.get("sent"),
        "link_received_bits_per_s": link.get("received"),
    }


def network_fields(count: NodeCount | None) -> Row:
    """What went through it, where anybody counted."""
    if count is None:
        return {}
    return {
        "net_sent_bytes": count.sent_bytes,
        "net_received_bytes": count.received_bytes,
        "packets_sent": count.packets_sent,
        "packets_received": count.packets_received,
        "network_counted_by": count.counted_by,
    }


def _growth(rows: list[Row], phase: str, key: str) -> int | None:
    """How much a counter grew in one phase; a row covers the time since the row before."""
    covered = [(before[key], row[key]) for before, row in pairwise(rows) if row["phase"] == phase]
    if not covered or any(value is None for pair in covered for value in pair):
        return None
    return sum(int(last) - int(first) for first, last in covered)
