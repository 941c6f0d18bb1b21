"""From what was seen and written down to a result: totals, rates, means, staleness."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, final

from paceline.facts import Facts
from paceline.learnt import mean_loss, warnings_of
from paceline.metrics import metrics_in
from paceline.node_usage import link_fields, network_fields, node_usage
from paceline.results import (
    BucketTotals,
    Result,
    ServerTotals,
    Staleness,
    Status,
    WorkerTotals,
)
from paceline.traffic import counted_on, traffic_of

Row = dict[str, Any]

# The part of the time that a steady rate leaves out.
_TENTH: Final = 0.1
# A replayed run is host-limited if more of its steps than this were computed late, or if a thread
# of a seat could have run and had no processor for more of the time than this.
_LATE_SHARE: Final = 0.05
_HELD_UP_SHARE: Final = 0.2


@final
@dataclass(kw_only=True)
class Outcome:
    """How a run went, as far as only its driver knows."""

    status: Status = "finished"
    reason: str | None = None
    data: str | None = None
    has_buffers: bool = False
    """Whether the model has statistics of its own beside its parameters."""
    totals: dict[str, Row] = field(default_factory=dict)
    """What each worker said of itself when it had trained."""
    refused: dict[str, Row] = field(default_factory=dict)
    """What workers that did not come to their end said of steps that were refused."""
    servers: dict[str, Row] = field(default_factory=dict)
    """What each server counted."""
    evaluations: list[Row] = field(default_factory=list)
    seconds_to_target: float | None = None
    evaluation_s: float | None = None
    startup_s: float | None = None
    joining_s: float | None = None
    steal_s: float | None = None
    links: dict[str, Row] = field(default_factory=dict)
    """What each node's link was asked to carry, and did."""
    is_capped: bool = True
    """Whether nodes had no more processor than was asked for."""
    host_cpu_percent: float | None = None
    host_cores: int | None = None
    disk_busy_percent: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def result_of(
    path: Path, facts: Facts, outcome: Outcome, steps: list[Row], nodes: list[Row]
) -> Result:
    """Make a run's result of what its driver saw and what its processes wrote."""
    workers = tuple(_worker_totals(name, outcome, steps) for name in _worker_names(facts))
    train_s = max((each.train_s for each in workers), default=0.0) or None
    shared = [row["global_steps"] for row in [*steps, *outcome.totals.values()]]
    global_steps = max((each for each in shared if each is not None), default=None)
    worker_steps = sum(each.worker_steps for each in workers)
    samples = sum(each.samples for each in workers)
    last = _final_evaluation(outcome, steps)
    metrics = {key: _finite(value) for key, value in metrics_in(last).items()}
    final_loss = _final_loss(steps, workers, outcome)
    staleness = _staleness(outcome)
    is_replayed = facts.compute == "replayed"
    if worker_steps and final_loss is None and not is_replayed:
        outcome.warnings.append("the loss is not a finite number")
    outcome.warnings += warnings_of({**outcome.refused, **outcome.totals}, final_loss)
    rows = {node: [row for row in nodes if row["node"] == node] for node in facts.seats}
    counted = {node: counted_on(node, facts, rows[node], workers) for node in facts.seats}
    servers = _servers(outcome)
    host_limited = is_replayed and _is_host_limited(outcome, workers, servers, train_s or 1.0)
    return Result(
        run=str(path),
        status=outcome.status,
        reason=outcome.reason,
        workload=facts.workload,
        strategy=facts.strategy,
        cluster=facts.cluster,
        meaning=_meaning(facts, staleness),
        data=outcome.data,
        skipped_rows=_skipped_rows(outcome),
        buffers_of="worker0" if outcome.has_buffers else None,
        compute=facts.compute,
        device=facts.device,
        dilation=facts.dilation,
        host_limited=host_limited,
        num_workers=facts.num_workers,
        batch_size=facts.batch_size,
        seed=facts.seed,
        threads=facts.threads,
        threads_why=facts.threads_why,
        global_steps=global_steps,
        worker_steps=worker_steps,
        samples=samples,
        refused_steps=sum(each.refused or 0 for each in workers),
        train_s=train_s,
        steps_per_s=_rate(global_steps, train_s),
        worker_steps_per_s=_rate(worker_steps, train_s),
        samples_per_s=_rate(samples, train_s),
        steady_samples_per_s=_steady_rate(steps, train_s),
        final_loss=final_loss,
        test_accuracy=metrics.get("accuracy"),
        test_loss=metrics.get("loss"),
        test_metrics={key: value for key, value in metrics.items() if value is not None},
        better=facts.better,
        target=facts.target,
        seconds_to_target=outcome.seconds_to_target,
        evaluation_s=outcome.evaluation_s,
        startup_s=outcome.startup_s,
        joining_s=outcome.joining_s,
        steal_s=outcome.steal_s,
        host_cpu_percent=outcome.host_cpu_percent,
        host_cores=outcome.host_cores,
        disk_busy_percent=outcome.disk_busy_percent,
        model_bytes=_said_by_any(outcome, "model_bytes"),
        touched_rows=_said_by_any(outcome, "touched_rows"),
        row_bytes=_said_by_any(outcome, "row_bytes"),
        warnings=(*facts.notes, *outcome.warnings),
        nodes=tuple(
            node_usage(
                name,
                facts,
                rows[name],
                workers,
                said={**outcome.totals, **outcome.servers},
                network={
                    **link_fields(outcome.links.get(name, {})),
                    **network_fields(counted[name]),
                },
            )
            for name in facts.seats
        ),
        workers=workers,
        servers=servers,
        staleness=staleness,
        traffic=traffic_of(facts, counted, {**outcome.totals, **outcome.servers}),
    )


def _said_by_any(outcome: Outcome, key: str) -> Any:
    """What every worker says alike."""
    return next((said[key] for said in outcome.totals.values() if key in said), None)


def _final_evaluation(outcome: Outcome, steps: list[Row]) -> Row:
    """The evaluation of the final parameters; a run that ended early may have none."""
    last = outcome.evaluations[-1] if outcome.evaluations else {}
    if outcome.status == "finished":
        return last
    rows = [*steps, *outcome.totals.values()]
    made = [row["global_steps"] or row["worker_steps"] for row in rows]
    return last if last.get("progress") == max(made, default=None) else {}


def _skipped_rows(outcome: Outcome) -> int:
    """Count bad rows: each worker's own, and once those that all left out alike."""
    said = outcome.totals.values()
    skipped: int = sum(each.get("skipped_rows", 0) for each in said)
    skipped += max((each.get("left_out_rows", 0) for each in said), default=0)
    if skipped:
        first = next(each["first_skipped"] for each in said if each.get("first_skipped"))
        outcome.warnings.append(f"{skipped:,} bad rows were left out, such as {first}")
    return skipped


def _worker_names(facts: Facts) -> list[str]:
    return [f"worker{index}" for index in range(facts.num_workers)]


def _worker_totals(name: str, outcome: Outcome, steps: list[Row]) -> WorkerTotals:
    """What a worker said at its end, or else what its rows say."""
    rows = [row for row in steps if row["seat"] == name]
    last: Row = rows[-1] if rows else {"worker_steps": 0, "samples": 0, "time_s": 0.0}
    refused = outcome.refused.get(name, {})
    said = outcome.totals.get(name) or {**last, **refused, "train_s": last["time_s"]}
    spans = {key: sum(row[key] for row in rows) for key in ("load_s", "compute_s", "exchange_s")}
    return WorkerTotals(
        name=name,
        worker_steps=said["worker_steps"],
        samples=said["samples"],
        train_s=said["train_s"],
        sent_bytes=said.get("sent_bytes"),
        received_bytes=said.get("received_bytes"),
        refused=said.get("refused"),
        refused_because=said.get("refused_because", {}),
        dropped_frames=said.get("dropped_frames"),
        rejected_peers=said.get("rejected_peers"),
        cpu_s=said.get("cpu_s"),
        ready_s=said.get("ready_s"),
        most_ready_s=said.get("most_ready_s"),
        memory_peak_bytes=said.get("memory_peak_bytes"),
        hidden_s=said.get("hidden_s"),
        device_busy_s=said.get("device_busy_s"),
        late_steps=said.get("late_steps"),
        apply_s=said.get("apply_s"),
        buckets=tuple(BucketTotals(**each) for each in said.get("buckets", ())),
        **_arrivals(name, outcome),
        **(spans if rows else {}),
    )


def _arrivals(name: str, outcome: Outcome) -> Row:
    """How a worker arrived at synchronous updates: as it says, or as the first server saw it."""
    said = outcome.totals.get(name, {})
    if "late_s" in said:
        return {key: said[key] for key in ("times_last", "late_s", "wait_s")}
    seen = outcome.servers.get("server0", {})
    queued = seen.get("queue_by_worker_s")
    known = {"queue_s": queued.get(name, 0.0)} if queued else {}
    if not seen.get("last_arrivals"):
        return {**known, "wait_s": said.get("held_s")}
    return {
        **known,
        "times_last": seen["last_arrivals"].get(name, 0),
        "late_s": seen["late_by_worker_s"].get(name, 0.0),
        "wait_s": seen["wait_by_worker_s"].get(name, 0.0),
    }


def _servers(outcome: Outcome) -> tuple[ServerTotals, ...]:
    counted = sorted((name, row) for name, row in outcome.servers.items() if "updates" in row)
    keys = {each.name for each in fields(ServerTotals)}
    return tuple(
        ServerTotals(name=name, **{key: row[key] for key in keys & row.keys()})
        for name, row in counted
    )


def _staleness(outcome: Outcome) -> Staleness | None:
    """Join the workers' histograms."""
    joined: Counter[int] = Counter()
    for said in outcome.totals.values():
        for key, count in said.get("staleness", {}).items():
            joined[int(key)] += count
    if not joined:
        return None
    inorder = sorted(joined.items())
    return Staleness(
        mean=sum(key * count for key, count in inorder) / joined.total(),
        p50=_quantile(inorder, 0.5),
        p99=_quantile(inorder, 0.99),
        max=inorder[-1][0],
        histogram={str(key): count for key, count in inorder},
    )


def _quantile(inorder: list[tuple[int, int]], share: float) -> int:
    """The least value that so large a share of the counted ones does not exceed."""
    wanted = share * sum(count for _, count in inorder)
    passed = 0
    for value, count in inorder:
        passed += count
        if passed >= wanted:
            return value
    raise AssertionError("no values")


def _meaning(facts: Facts, staleness: Staleness | None) -> str:
    """What was computed, with what was measured of it."""
    if staleness is None or staleness.max == 0:
        return facts.meaning
    return f"{facts.meaning}, mean staleness {staleness.mean:.1f}"


def _final_loss(
    steps: list[Row], workers: tuple[WorkerTotals, ...], outcome: Outcome
) -> float | None:
    """Average the training loss over the last tenth of each worker's steps.

    Workers that came to their end said it exactly; of others there are the rows.
    """
    if len(outcome.totals) == len(workers):
        return _finite(mean_loss(outcome.totals))
    totals = {each.name: each.worker_steps for each in workers}
    weights = [_tenths_in_tail(row, totals[row["seat"]]) for row in steps]
    if not any(weights) or any(row["loss_mean"] is None for row in steps):
        return None
    total = sum(row["loss_mean"] * each for row, each in zip(steps, weights, strict=True) if each)
    return _finite(total / sum(weights))


def _tenths_in_tail(row: Row, num_steps: int) -> int:
    """How many of a row's steps are among the last tenth of all; ten times as many, to be whole."""
    count: int = row["count"]
    end: int = row["worker_steps"]
    return max(0, min(10 * count, 10 * end - 9 * num_steps))


def _steady_rate(steps: list[Row], train_s: float | None) -> float | None:
    """Samples per second of all workers, the first tenth of the time left out."""
    if not train_s:
        return None
    rate = 0.0
    for seat in {row["seat"] for row in steps}:
        rows = [row for row in steps if row["seat"] == seat]
        late = [row for row in rows if row["time_s"] >= _TENTH * train_s]
        elapsed_s = late[-1]["time_s"] - late[0]["time_s"] if late else 0.0
        if elapsed_s <= 0:
            return None
        rate += (late[-1]["samples"] - late[0]["samples"]) / elapsed_s
    return rate or None


def _is_host_limited(
    outcome: Outcome,
    workers: tuple[WorkerTotals, ...],
    servers: tuple[ServerTotals, ...],
    train_s: float,
) -> bool:
    """Say whether the machine kept up with the devices and links it stands for, and warn if not."""
    late = sum(each.late_steps or 0 for each in workers)
    steps = sum(each.worker_steps for each in workers if each.late_steps is not None)
    seats: list[WorkerTotals | ServerTotals] = [*workers, *servers]
    held_up = {each.name: (each.most_ready_s or each.ready_s or 0.0) / train_s for each in seats}
    worst = max(held_up, key=lambda name: held_up[name])
    reasons = []
    if late > _LATE_SHARE * steps:
        reasons.append(f"{100 * late / steps:.0f} % of the steps were computed late")
    if held_up[worst] > _HELD_UP_SHARE:
        share = f"{100 * held_up[worst]:.0f} % of the time"
        reasons.append(f"{worst} waited for a core {share}")
    if reasons:
        more = "a higher --dilation, fewer workers or a larger machine may help"
        outcome.warnings.append(f"host-limited: {' and '.join(reasons)}; {more}")
    return bool(reasons)


def _rate(amount: float | None, train_s: float | None) -> float | None:
    return amount / train_s if amount is not None and train_s else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
