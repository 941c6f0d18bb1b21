"""The tables of a report on runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.exhibits import Column, Table, table_of
from paceline.report.conclusion import speed_up
from paceline.report.level import Yardstick
from paceline.report.sides import Measure, Side, differing, short
from paceline.results import Verdict
from paceline.stored import StoredRun

MB = 1e-6


def comparison(sides: Sequence[Side], stick: Yardstick, labels: tuple[str, ...] = ()) -> Table:
    """One row a side: how long, how fast, how well, at what cost."""
    rows = [_comparison_row(side, sides, stick) for side in sides]
    columns = [
        Column(name="side", label="strategy"),
        Column(name="workers", label="workers", form=","),
        *_time_columns(stick),
        Column(name="train_s", label="training", unit="s", form=".2f"),
        Column(name="steps_per_s", label="steps/s", form=",.0f"),
        Column(name="samples_per_s", label="rows/s", form=",.0f"),
        Column(name="speed_up", label="speed-up", unit="times", form=".2f"),
        Column(name="final_loss", label="final loss", form=".4f"),
        Column(name="accuracy", label="accuracy", unit="%", form=".2f", scale=100),
        Column(name="staleness", label="staleness", form=".2f"),
        Column(name="busiest_bytes", label="busiest node", unit="MB", form=",.1f", scale=MB),
        Column(name="verdict", label="verdict"),
        Column(name="runs", label="runs"),
    ]
    kept = [each for each in columns if _is_told(each.name, rows)]
    return table_of("comparison", "The comparison", rows, kept, note=_NOTE, labels=labels)


_NOTE = (
    "Medians of the finished runs; ± is half the spread. Speed-up is rows a second against one "
    "worker. Busiest node: bytes sent and received by the node, or else the seat, with the most. "
    "A dash: not known."
)


def _time_columns(stick: Yardstick) -> list[Column]:
    if stick.kind in {"rows", "rate"}:
        return []
    return [
        Column(name="time_s", label=stick.words, unit="s", form=".2f"),
        Column(name="spread", label="±", unit="s", form=".2f"),
    ]


def _comparison_row(side: Side, sides: Sequence[Side], stick: Yardstick) -> dict[str, Any]:
    time = stick.measure(side)
    result = side.shown.result
    return {
        "side": side.label,
        "workers": side.num_workers,
        "time_s": time.median if time else None,
        "spread": time.spread / 2 if time and time.count > 1 else None,
        "train_s": side.median(lambda run: run.result.train_s),
        "steps_per_s": side.median(steps_per_s),
        "samples_per_s": side.median(lambda run: run.result.samples_per_s),
        "speed_up": speed_up(side, sides),
        "final_loss": side.median(lambda run: run.result.final_loss),
        "accuracy": side.median(lambda run: run.result.test_accuracy),
        "staleness": side.median(_staleness),
        "busiest_bytes": side.median(busiest_bytes),
        "verdict": verdict_kind(side.shown),
        "runs": _runs(side),
        "status": result.status,
    }


def _is_told(name: str, rows: Sequence[dict[str, Any]]) -> bool:
    """Leave out a column of which nothing is known, but for those that everybody looks for."""
    optional = {"staleness", "busiest_bytes", "verdict", "spread", "speed_up", "accuracy"}
    return name not in optional or any(row.get(name) not in {None, ""} for row in rows)


def _runs(side: Side) -> str:
    if len(side.finished) == len(side.runs):
        return f"{len(side.runs)}"
    others = ", ".join(dict.fromkeys(run.result.status for run in side.runs if not run.is_finished))
    return f"{len(side.finished)} of {len(side.runs)} ({others})"


def steps_per_s(run: StoredRun) -> float | None:
    """Global steps a second; where nothing is shared, those of all workers."""
    result = run.result
    return result.worker_steps_per_s if result.global_steps is None else result.steps_per_s


def _staleness(run: StoredRun) -> float | None:
    return run.result.staleness.mean if run.result.staleness else None


def busiest_bytes(run: StoredRun) -> float | None:
    """Bytes sent and received at the node that moved most; without links, at the busiest seat."""
    nodes = [
        node.net_sent_bytes + node.net_received_bytes
        for node in run.result.nodes
        if node.net_sent_bytes is not None and node.net_received_bytes is not None
    ]
    if nodes:
        return max(nodes)
    seats = [
        worker.sent_bytes + worker.received_bytes
        for worker in run.result.workers
        if worker.sent_bytes is not None and worker.received_bytes is not None
    ]
    if not seats:
        return None
    servers = len(run.result.servers)
    return max(*seats, sum(seats) / servers) if servers else max(seats)


def verdict_kind(run: StoredRun) -> str:
    verdict = run.result.verdict
    return verdict.kind if verdict else ""


def verdicts(sides: Sequence[Side]) -> Table | None:
    """What held each side up, and the measured shares that it rests on."""
    rows = [
        _verdict_row(side.label, side.shown.result.verdict)
        for side in sides
        if side.shown.result.verdict
    ]
    columns = [
        Column(name="side", label="strategy"),
        Column(name="kind", label="verdict"),
        Column(name="where", label="where"),
        Column(name="sentence", label="in words"),
        Column(name="evidence", label="evidence, % of the time"),
        Column(name="suggestion", label="to try next"),
        Column(name="gain", label="expected gain", unit="times", form=".2f"),
    ]
    return table_of("verdicts", "Verdicts", rows, columns) if rows else None


def _verdict_row(label: str, verdict: Verdict) -> dict[str, Any]:
    shares = (f"{name} {100 * share:.0f}" for name, share in verdict.evidence.items())
    return {
        "side": label,
        "kind": verdict.kind,
        "where": verdict.where,
        "sentence": verdict.sentence,
        "evidence": ", ".join(shares),
        "suggestion": verdict.suggestion,
        "gain": verdict.expected_gain,
    }


def nodes(sides: Sequence[Side], labels: tuple[str, ...] = ()) -> Table | None:
    """What each node used, in the run of each side whose lines are drawn."""
    rows = [
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
        for side in sides
        for node in side.shown.result.nodes
    ]
    columns = [
        Column(name="side", label="strategy"),
        Column(name="node", label="node"),
        Column(name="seats", label="seats"),
        Column(name="cpu_mean", label="CPU mean", unit="% of a core", form=",.0f"),
        Column(name="cpu_peak", label="peak", unit="%", form=",.0f"),
        Column(name="device_busy", label="device busy", unit="%", form=",.0f"),
        Column(name="memory_peak", label="memory peak", unit="MB", form=",.0f", scale=MB),
        Column(name="link", label="link asked for", unit="Mbit/s", form=",.0f", scale=MB),
        Column(name="link_sent", label="carried out", unit="Mbit/s", form=",.0f", scale=MB),
        Column(name="link_received", label="carried in", unit="Mbit/s", form=",.0f", scale=MB),
        Column(name="sent", label="sent", unit="MB", form=",.1f", scale=MB),
        Column(name="received", label="received", unit="MB", form=",.1f", scale=MB),
        Column(name="packets_sent", label="packets sent", form=","),
        Column(name="packets_received", label="packets received", form=","),
        Column(name="disk_read", label="disk read", unit="MB", form=",.1f", scale=MB),
        Column(name="disk_written", label="written", unit="MB", form=",.1f", scale=MB),
    ]
    kept = [
        each for each in columns if not each.form or any(row[each.name] is not None for row in rows)
    ]
    if not rows:
        return None
    counted = {node.network_counted_by for side in sides for node in side.shown.result.nodes}
    note = _HANDED_OVER if "transports" in counted else ""
    return table_of("nodes", "By node", rows, kept, note=note, labels=labels)


_HANDED_OVER = (
    "Without links, bytes are counted by those who send, as if what they hand over within a node "
    "travelled."
)


def every_run(sides: Sequence[Side]) -> Table:
    """Every run that went into the report, by its folder's name."""
    rows = [
        {
            "run": run.name,
            "side": side.label,
            "status": run.result.status,
            "reason": run.result.reason or "",
            "train_s": run.result.train_s,
            "samples_per_s": run.result.samples_per_s,
            "final_loss": run.result.final_loss,
            "accuracy": run.result.test_accuracy,
            "seed": run.result.seed,
            "startup_s": run.result.startup_s,
            "steal_s": run.result.steal_s,
        }
        for side in sides
        for run in side.runs
    ]
    columns = [
        Column(name="side", label="strategy"),
        Column(name="run", label="run"),
        Column(name="status", label="status"),
        Column(name="reason", label="reason"),
        Column(name="train_s", label="training", unit="s", form=".3f"),
        Column(name="samples_per_s", label="rows/s", form=",.0f"),
        Column(name="final_loss", label="final loss", form=".4f"),
        Column(name="accuracy", label="accuracy", unit="%", form=".2f", scale=100),
        Column(name="seed", label="seed", form="d"),
        Column(name="startup_s", label="start-up", unit="s", form=".2f"),
        Column(name="steal_s", label="stolen", unit="s", form=".2f"),
    ]
    kept = [each for each in columns if each.name != "reason" or any(row["reason"] for row in rows)]
    return table_of("runs", "Every run", rows, kept)


def settings(sides: Sequence[Side]) -> Table | None:
    """The settings in which sides differ."""
    keys = differing([side.runs[0] for side in sides])
    if not keys:
        return None
    rows = [
        {"side": side.label} | {key: _setting(side.runs[0].settings.get(key)) for key in keys}
        for side in sides
    ]
    columns = [Column(name="side", label="strategy")]
    columns += [Column(name=key, label=key) for key in keys if key != "strategy.name"]
    return table_of("settings", "In what the runs differ", rows, columns)


def _setting(value: object) -> str:
    return "" if value is None else short(str(value))


def machine(run: StoredRun) -> Table:
    """What it ran on."""
    seen = run.environment
    cpu, memory = seen.get("cpu") or {}, seen.get("memory") or {}
    total_bytes = memory.get("total_bytes")
    versions = {name: each for name, each in (seen.get("versions") or {}).items() if each}
    facts = {
        "machine": seen.get("hostname"),
        "processor": cpu.get("model"),
        "cores": cpu.get("usable_cores") or cpu.get("logical_cores"),
        "memory": f"{total_bytes / 1e9:.1f} GB" if total_bytes else None,
        "virtualisation": seen.get("virtualisation"),
        "kernel": seen.get("kernel"),
        "TCP congestion control": seen.get("tcp_congestion_control"),
        "when": seen.get("captured_at_utc"),
        "versions": ", ".join(f"{name} {each}" for name, each in versions.items()),
        "commit": _commit(seen),
        "cluster": run.result.cluster,
        "data": run.result.data,
    }
    rows = [
        {"what": what, "value": f"{value:g}" if isinstance(value, float) else str(value)}
        for what, value in facts.items()
        if value
    ]
    columns = [Column(name="what", label="what"), Column(name="value", label="found")]
    return table_of("machine", "Versions and machine", rows, columns)


def _commit(seen: dict[str, Any]) -> str | None:
    git = (seen.get("git") or {}).get("paceline") or {}
    commit = git.get("commit")
    return f"{commit}{' with changes' if git.get('dirty') else ''}" if commit else None


def spread_of(measure: Measure | None) -> dict[str, float | None]:
    """Give a figure and its spread as columns of a table."""
    if measure is None:
        return {"value": None, "low": None, "high": None}
    return {"value": measure.median, "low": measure.low, "high": measure.high}
