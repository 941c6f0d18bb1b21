"""The tables of what nodes and processes used, and of what travelled between nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars
from polars import col

from paceline.exhibits.values import Column, Table, table_of
from paceline.outcome.results import ServerTotals, WorkerTotals
from paceline.reporting.sides import Side
from paceline.reporting.tables import MB, NODE, SIDE
from paceline.store.stored import StoredRun

Row = dict[str, Any]


def nodes(sides: Sequence[Side], labels: tuple[str, ...] = ()) -> Table | None:
    """What each node used, in the run of each side whose lines are drawn."""
    rows = [row for side in sides for row in _node_rows(side)]
    columns = [
        SIDE,
        NODE,
        Column(name="seats", label="seats"),
        Column(name="cpu_mean", label="CPU mean", unit="% of a core", form=",.0f"),
        Column(name="cpu_peak", label="peak", unit="%", form=",.0f"),
        Column(name="device_busy", label="device busy", unit="%", form=",.0f"),
        Column(name="memory_peak", label="memory peak", unit="MB", form=",.0f", scale=MB),
        Column(name="link", label="configured link", unit="Mbit/s", form=",.0f", scale=MB),
        Column(name="link_sent", label="carried out", unit="Mbit/s", form=",.0f", scale=MB),
        Column(name="link_received", label="carried in", unit="Mbit/s", form=",.0f", scale=MB),
        Column(name="sent", label="sent", unit="MB", form=",.1f", scale=MB),
        Column(name="received", label="received", unit="MB", form=",.1f", scale=MB),
        Column(name="packets_sent", label="packets sent", form=","),
        Column(name="packets_received", label="packets received", form=","),
        Column(name="disk_read", label="disk read", unit="MB", form=",.1f", scale=MB),
        Column(name="disk_written", label="written", unit="MB", form=",.1f", scale=MB),
    ]
    counted = {node.network_counted_by for side in sides for node in side.shown.result.nodes}
    note = _HANDED_OVER if "transports" in counted else ""
    return _table("nodes", "By node", rows, columns, note=note, labels=labels)


def _node_rows(side: Side) -> list[Row]:
    return [
        {
            "side": side.label,
            "node": node.name,
            "seats": ", ".join(node.seats),
            "cpu_mean": node.cpu_percent_mean,
            "cpu_peak": node.cpu_percent_peak,
            "memory_peak": node.memory_peak_bytes,
            "link": node.link_bits_per_s,
            "link_sent": node.link_sent_bits_per_s,
            "link_received": node.link_received_bits_per_s,
            "sent": node.net_sent_bytes,
            "received": node.net_received_bytes,
            "packets_sent": node.packets_sent,
            "packets_received": node.packets_received,
            "device_busy": node.device_busy_percent,
            "disk_read": node.disk_read_bytes,
            "disk_written": node.disk_written_bytes,
        }
        for node in side.shown.result.nodes
    ]


_HANDED_OVER = "Without links, senders count bytes, including those exchanged within a node."


def traffic(sides: Sequence[Side], labels: tuple[str, ...] = ()) -> Table | None:
    """Payload of every node beside the closed form of its strategy, sent and received apart."""
    rows = [
        {
            "side": side.label,
            "node": node.node,
            "sent": node.sent_bytes,
            "expected_sent": node.expected_sent_bytes,
            "sent_ratio": node.sent_ratio,
            "received": node.received_bytes,
            "expected_received": node.expected_received_bytes,
            "received_ratio": node.received_ratio,
        }
        for side in sides
        if side.shown.result.traffic
        for node in side.shown.result.traffic.nodes
    ]
    columns = [
        SIDE,
        NODE,
        Column(name="sent", label="sent", unit="MB", form=",.2f", scale=MB),
        Column(name="expected_sent", label="sent by theory", unit="MB", form=",.2f", scale=MB),
        Column(name="sent_ratio", label="sent, ratio", form=".4f"),
        Column(name="received", label="received", unit="MB", form=",.2f", scale=MB),
        Column(
            name="expected_received", label="received by theory", unit="MB", form=",.2f", scale=MB
        ),
        Column(name="received_ratio", label="received, ratio", form=".4f"),
    ]
    title = "Traffic by node, beside theory"
    return _table("traffic", title, rows, columns, note=_EXACT, labels=labels)


_EXACT = (
    "Payload while training, headers of packets left out, and what the strategy's closed form says "
    "for the steps that were made. Ratios are a little above 1: messages have headers of their own."
)


def pairs(sides: Sequence[Side], labels: tuple[str, ...] = ()) -> Table | None:
    """What each node sent to each other one."""
    rows = [row for side in sides for row in _pair_rows(side)]
    columns = [
        SIDE,
        Column(name="sender", label="from"),
        Column(name="receiver", label="to"),
        Column(name="num_bytes", label="sent", unit="MB", form=",.2f", scale=MB),
        Column(name="share", label="of all traffic", unit="%", form=".1f", scale=100),
        Column(name="per_step", label="a step", unit="MB", form=",.4f", scale=MB),
    ]
    title = "Traffic by pair of nodes"
    return _table("traffic-pairs", title, rows, columns, note=_BY_SENDERS, labels=labels)


_BY_SENDERS = (
    "Values as counted by their senders, including a server's answers to evaluations. A step "
    "is one step of every worker."
)


def _pair_rows(side: Side) -> list[Row]:
    result = side.shown.result
    if result.traffic is None:
        return []
    total = sum(pair.num_bytes for pair in result.traffic.pairs)
    steps = result.worker_steps / result.num_workers
    return [
        {
            "side": side.label,
            "sender": pair.sender,
            "receiver": pair.receiver,
            "num_bytes": pair.num_bytes,
            "share": pair.num_bytes / total if total else None,
            "per_step": pair.num_bytes / steps if steps else None,
        }
        for pair in result.traffic.pairs
    ]


def processes(sides: Sequence[Side], labels: tuple[str, ...] = ()) -> Table | None:
    """Processor and disk of every worker and server."""
    rows = [row for side in sides for row in _process_rows(side)]
    columns = [
        SIDE,
        NODE,
        Column(name="seat", label="process"),
        Column(name="cpu_mean", label="CPU mean", unit="% of a core", form=",.0f"),
        Column(name="cpu_peak", label="peak", unit="%", form=",.0f"),
        Column(name="cpu_s", label="stepping thread", unit="s", form=",.2f"),
        Column(name="ready_s", label="waited for a core", unit="s", form=",.2f"),
        Column(name="memory_peak", label="memory peak", unit="MB", form=",.0f", scale=MB),
        Column(name="disk_read", label="disk read", unit="MB", form=",.2f", scale=MB),
        Column(name="disk_written", label="written", unit="MB", form=",.2f", scale=MB),
    ]
    title = "CPU and disk by process"
    return _table("processes", title, rows, columns, note=_WATCHED, labels=labels)


_WATCHED = (
    "CPU and disk are those of the whole process, its children included, over the samples taken "
    "while training. The stepping thread is the one that trains or serves."
)


def _process_rows(side: Side) -> list[Row]:
    result = side.shown.result
    node_of = {seat: node.name for node in result.nodes for seat in node.seats}
    sampled = _by_seat(side.shown)
    seats: list[WorkerTotals | ServerTotals] = [*result.workers, *result.servers]
    return [
        {
            "side": side.label,
            "node": node_of.get(seat.name),
            "seat": seat.name,
            "cpu_s": seat.cpu_s,
            "ready_s": seat.ready_s,
            "memory_peak": getattr(seat, "memory_peak_bytes", None),
            **sampled.get(seat.name, {}),
        }
        for seat in seats
    ]


def _by_seat(run: StoredRun) -> Mapping[str, Row]:
    """What each process used while training, from the samples of its node; by its seat."""
    rows = run.nodes
    kind = rows.schema.get("seats")
    if not isinstance(kind, polars.List) or not isinstance(kind.inner, polars.Struct):
        return {}  # seats that share a process, or a run of an earlier version
    # A run too short for a whole sample has only mixed ones, as with what is told of nodes.
    phase = "training" if (rows["phase"] == "training").any() else "mixed"
    told = rows.select("phase", "seats", told=col("disk_read_bytes").is_not_null())
    used = (
        told.explode("seats")
        .drop_nulls("seats")
        .unnest("seats")
        .with_columns(
            polars.when("told").then(col(name).diff().over("seat")).alias(name)
            for name in ("disk_read_bytes", "disk_written_bytes")
        )
        .filter(phase=phase)
        .group_by("seat")
        .agg(
            cpu_mean=col("cpu_percent").mean(),
            cpu_peak=col("cpu_percent").max(),
            disk_read=_sum("disk_read_bytes"),
            disk_written=_sum("disk_written_bytes"),
        )
    )
    return {row.pop("seat"): row for row in used.to_dicts()}


def _sum(name: str) -> polars.Expr:
    """A sum that is not known where none of its parts is."""
    return polars.when(col(name).is_not_null().any()).then(col(name).sum())


def _table(
    name: str,
    title: str,
    rows: Sequence[Row],
    columns: Iterable[Column],
    *,
    note: str,
    labels: tuple[str, ...],
) -> Table | None:
    """Make a table of the columns of which anything is known; None where there are no rows."""
    if not rows:
        return None
    kept = [
        each
        for each in columns
        if not each.form or any(row.get(each.name) is not None for row in rows)
    ]
    return table_of(name, title, rows, kept, note=note, labels=labels)
