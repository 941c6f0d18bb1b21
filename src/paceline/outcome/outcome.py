"""From what was seen and written down to a result: totals, rates, means, staleness."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, final

from paceline.outcome.accounts import RefusedSteps, ServerAccount, WorkerAccount
from paceline.outcome.disturbed import Disturbance, Setback, goodput
from paceline.outcome.facts import Facts
from paceline.outcome.incarnations import (
    last_of_earlier,
    steady_rate,
    steps_of_newest,
    tenths_in_tail,
    together,
)
from paceline.outcome.learnt import mean_loss, warnings_of
from paceline.outcome.node_usage import link_fields, network_fields, node_usage
from paceline.outcome.results import (
    PairRate,
    Result,
    ServerTotals,
    Staleness,
    Status,
    WorkerTotals,
)
from paceline.outcome.traffic import counted_on, traffic_of
from paceline.training.metrics import metrics_in

Row = dict[str, Any]

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
    own_batch: int | None = None
    """Rows per worker per step, where the facts do not say."""
    data: str | None = None
    has_buffers: bool = False
    """Whether the model has statistics of its own beside its parameters."""
    totals: dict[str, WorkerAccount] = field(default_factory=dict)
    """What each worker said of itself when it had trained."""
    refused: dict[str, RefusedSteps] = field(default_factory=dict)
    """What workers that did not come to their end said of steps that were refused."""
    servers: dict[str, ServerAccount] = field(default_factory=dict)
    """What each server counted."""
    evaluations: list[Row] = field(default_factory=list)
    seconds_to_target: float | None = None
    evaluation_s: float | None = None
    num_checkpoints: int = 0
    checkpoint_s: float = 0.0
    """How long training stood still for them."""
    startup_s: float | None = None
    joining_s: float | None = None
    steal_s: float | None = None
    links: dict[str, Row] = field(default_factory=dict)
    """What each node's link was asked to carry, and did."""
    is_capped: bool = True
    """Whether nodes had no more processor than was asked for."""
    num_cores: dict[str, float] = field(default_factory=dict)
    """Cores by node, where nodes are machines of their own."""
    pairs: tuple[PairRate, ...] = ()
    """What each node's way to each other carries, where nodes are machines of their own."""
    node_threads: dict[str, int] = field(default_factory=dict)
    """Compute threads per worker by node, where nodes are machines of their own."""
    listeners: dict[str, list[str]] = field(default_factory=dict)
    """Where the driver and each seat listen."""
    refused_calls: int = 0
    host_cpu_percent: float | None = None
    host_cores: int | None = None
    disk_busy_percent: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    disturbances: list[Disturbance] = field(default_factory=list)
    """Faults that struck and seats that were lost, in that order."""
    rows_lost: int | None = None
    """Rows that were not trained on, since their worker was away; None where none was."""
    setback: Setback | None = None

    def note_listeners(self, who: str, places: Sequence[str]) -> None:
        """Add where somebody listens, once each."""
        known = self.listeners.setdefault(who, []) if places else []
        known += [each for each in places if each not in known]


def result_of(
    path: Path, facts: Facts, outcome: Outcome, steps: list[Row], nodes: list[Row]
) -> Result:
    """Make a run's result of what its driver saw and what its processes wrote."""
    workers = tuple(_worker_totals(name, facts, outcome, steps) for name in facts.workers)
    train_s = max((each.train_s for each in workers), default=0.0) or None
    said = outcome.totals.values()
    shared = [*(row["global_steps"] for row in steps), *(each.global_steps for each in said)]
    global_steps = max((each for each in shared if each is not None), default=None)
    worker_steps = sum(each.worker_steps for each in workers)
    samples = sum(each.samples for each in workers)
    last = _final_evaluation(outcome, steps)
    metrics = {key: _finite(value) for key, value in metrics_in(last).items()}
    final_loss = _final_loss(steps, workers, outcome)
    staleness = _staleness(outcome)
    is_replayed = facts.compute == "replayed"
    if worker_steps and final_loss is None and not is_replayed and _is_loss_known(outcome, steps):
        outcome.warnings.append("the loss is not a finite number")
    outcome.warnings += warnings_of(outcome.totals, outcome.refused, final_loss)
    rows = {node: [row for row in nodes if row["node"] == node] for node in facts.seats}
    counted = {node: counted_on(node, facts, rows[node], workers) for node in facts.seats}
    servers = _servers(outcome)
    alike = next(iter(said), None)  # of the model, all workers say the same
    host_limited = is_replayed and _is_host_limited(outcome, workers, servers, train_s or 1.0)
    return Result(
        **_repeated(facts, outcome),
        run=str(path),
        meaning=_meaning(facts, staleness),
        skipped_rows=_skipped_rows(outcome),
        buffers_of=facts.workers[0] if outcome.has_buffers else None,
        host_limited=host_limited,
        global_steps=global_steps,
        worker_steps=worker_steps,
        samples=samples,
        refused_steps=sum(each.refused or 0 for each in workers),
        train_s=train_s,
        steps_per_s=_rate(global_steps, train_s),
        worker_steps_per_s=_rate(worker_steps, train_s),
        samples_per_s=_rate(samples, train_s),
        steady_samples_per_s=steady_rate(steps, train_s),
        final_loss=final_loss,
        test_accuracy=metrics.get("accuracy"),
        test_loss=metrics.get("loss"),
        test_metrics={key: value for key, value in metrics.items() if value is not None},
        model_bytes=alike.model_bytes if alike else None,
        touched_rows=alike.touched_rows if alike else None,
        row_bytes=alike.row_bytes if alike else None,
        warnings=(*facts.notes, *outcome.warnings),
        disturbances=tuple(outcome.disturbances),
        goodput=goodput(outcome.disturbances, facts, train_s),
        dropped_steps=sum(int(each.other.get("dropped_steps", 0)) for each in workers),
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
        traffic=traffic_of(facts, counted, outcome.totals, outcome.servers),
    )


def _final_evaluation(outcome: Outcome, steps: list[Row]) -> Row:
    """The evaluation of the final parameters; a run that ended early may have none."""
    last = outcome.evaluations[-1] if outcome.evaluations else {}
    if outcome.status == "finished":
        return last
    made = [row["global_steps"] or row["worker_steps"] for row in steps]
    made += [each.global_steps or each.worker_steps for each in outcome.totals.values()]
    return last if last.get("progress") == max(made, default=None) else {}


def _skipped_rows(outcome: Outcome) -> int:
    """Count bad rows: each worker's own, and once those that all left out alike."""
    said = outcome.totals.values()
    skipped = sum(each.skipped_rows for each in said)
    skipped += max((each.left_out_rows for each in said), default=0)
    if skipped:
        first = next(each.first_skipped for each in said if each.first_skipped)
        outcome.warnings.append(f"{skipped:,} bad rows were left out, such as {first}")
    return skipped


# These are more in a result than what was known or seen.
_COMPLETED: Final = ("meaning", "servers", "warnings", "disturbances")


def _repeated(*sources: Facts | Outcome) -> dict[str, Any]:
    """Give what a result says in the same words as its sources: fields of the same name."""
    names = {each.name for each in fields(Result)}.difference(_COMPLETED)
    return {
        each.name: getattr(source, each.name)
        for source in sources
        for each in fields(source)
        if each.name in names
    }


def _worker_totals(name: str, facts: Facts, outcome: Outcome, steps: list[Row]) -> WorkerTotals:
    """What a worker said at its end, or else what its rows say."""
    rows = [row for row in steps if row["seat"] == name]
    said = outcome.totals.get(name) or _account_of_rows(rows, outcome.refused.get(name))
    before = last_of_earlier(rows, said.worker_steps)
    spans = {key: sum(row[key] for row in rows) for key in ("load_s", "compute_s", "exchange_s")}
    return WorkerTotals(
        name=name,
        worker_steps=said.worker_steps + sum(row["worker_steps"] for row in before),
        samples=said.samples + sum(row["samples"] for row in before),
        train_s=said.train_s,
        sent_bytes=together(said.sent_bytes, before, "sent_bytes"),
        received_bytes=together(said.received_bytes, before, "received_bytes"),
        refused=said.refused,
        refused_because=said.refused_because,
        dropped_frames=said.dropped_frames,
        rejected_peers=said.rejected_peers,
        cpu_s=said.cpu_s,
        ready_s=said.ready_s,
        most_ready_s=said.most_ready_s,
        memory_peak_bytes=said.memory_peak_bytes,
        hidden_s=said.hidden_s,
        algorithm=said.algorithm,
        round_trip_s=said.round_trip_s,
        device_busy_s=said.device_busy_s,
        late_steps=said.late_steps,
        apply_s=said.apply_s,
        buckets=said.buckets,
        other=_finite_ones(said.other),
        **_arrivals(name, said, _first_server(facts, outcome)),
        **(spans if rows else {}),
    )


def _account_of_rows(rows: list[Row], refused: RefusedSteps | None) -> WorkerAccount:
    """Of a worker that did not come to its end."""
    last: Row = rows[-1] if rows else {"worker_steps": 0, "samples": 0, "time_s": 0.0}
    return WorkerAccount(
        train_s=last["time_s"],
        worker_steps=refused.worker_steps if refused else last["worker_steps"],
        samples=refused.samples if refused else last["samples"],
        sent_bytes=last.get("sent_bytes"),
        received_bytes=last.get("received_bytes"),
        refused=refused.refused if refused else None,
        refused_because=refused.refused_because if refused else {},
    )


def _first_server(facts: Facts, outcome: Outcome) -> ServerAccount:
    """All see workers arrive alike: the first is asked."""
    return next(
        (outcome.servers[name] for name in facts.servers[:1] if name in outcome.servers),
        ServerAccount(),
    )


def _arrivals(name: str, said: WorkerAccount, seen: ServerAccount) -> dict[str, Any]:
    """How a worker arrived at synchronous updates: as it says, or as the first server saw it."""
    if said.late_s is not None:
        return {"times_last": said.times_last, "late_s": said.late_s, "wait_s": said.wait_s}
    queued = seen.queue_by_worker_s
    known = {"queue_s": queued.get(name, 0.0)} if queued else {}
    if not seen.last_arrivals:
        return {**known, "wait_s": said.held_s}
    return {
        **known,
        "times_last": seen.last_arrivals.get(name, 0),
        "late_s": seen.late_by_worker_s.get(name, 0.0),
        "wait_s": seen.wait_by_worker_s.get(name, 0.0),
    }


def _servers(outcome: Outcome) -> tuple[ServerTotals, ...]:
    return tuple(
        ServerTotals(
            name=name,
            updates=each.updates,
            dropped=each.dropped,
            refused=each.refused,
            cpu_s=each.cpu_s,
            apply_s=each.apply_s,
            queue_s=each.queue_s,
            ready_s=each.ready_s,
            most_ready_s=each.most_ready_s,
            busy_s=each.busy_s,
            dropped_frames=each.dropped_frames,
            rejected_peers=each.rejected_peers,
            other=_finite_ones(each.other),
        )
        for name, each in sorted(outcome.servers.items())
        if each.updates is not None
    )


def _staleness(outcome: Outcome) -> Staleness | None:
    """Join the workers' histograms."""
    joined: Counter[int] = Counter()
    for said in outcome.totals.values():
        for key, count in said.staleness.items():
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


def _is_loss_known(outcome: Outcome, steps: list[Row]) -> bool:
    """Whether workers said any loss: a script need not, and may end before it has trained."""
    if outcome.totals:
        return any(each.told_losses for each in outcome.totals.values())
    return any(row["loss_mean"] is not None for row in steps)


def _final_loss(
    steps: list[Row], workers: tuple[WorkerTotals, ...], outcome: Outcome
) -> float | None:
    """Average the training loss over the last tenth of each worker's steps.

    Workers that came to their end said it exactly; of others there are the rows.
    """
    if len(outcome.totals) == len(workers):
        return _finite(mean_loss(outcome.totals))
    totals = {each.name: steps_of_newest(each, steps) for each in workers}
    weights = [tenths_in_tail(row, totals[row["seat"]]) for row in steps]
    if not any(weights) or any(row["loss_mean"] is None for row in steps):
        return None
    total = sum(row["loss_mean"] * each for row, each in zip(steps, weights, strict=True) if each)
    return _finite(total / sum(weights))


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


def _finite_ones(values: Mapping[str, float]) -> dict[str, float]:
    return {key: value for key, value in values.items() if math.isfinite(value)}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
