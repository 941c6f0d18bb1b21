"""What is known of a run before it starts, from its spec and its data."""

from __future__ import annotations

from collections.abc import Iterable

from paceline.arithmetic.exchange import Servers
from paceline.compute.devices import is_placed, note_of
from paceline.engine.latency import latency_notes
from paceline.outcome.facts import Facts
from paceline.spec import RunSpec
from paceline.system.cores import usable_cores
from paceline.training.metrics import better_of, targets_text
from paceline.workloads.order import Order


def facts_of(spec: RunSpec, order: Order) -> Facts:
    """Say what is known before a run starts."""
    seats: dict[str, list[str]] = {}
    for seat in spec.seats():
        seats.setdefault(seat.node, [])
        if seat.role != "monitor":
            seats[seat.node].append(seat.name)
    return Facts(
        workload=spec.workload.name,
        strategy=spec.strategy.name,
        cluster=spec.cluster.name,
        meaning=spec.strategy.meaning(spec.num_workers),
        num_workers=spec.num_workers,
        batch_size=order.batch,
        seed=spec.seed,
        target=targets_text(spec.targets),
        better=better_of(spec.workload.better),
        seats=seats,
        num_cores=cores_of(spec, seats),
        tensorboard=spec.record.tensorboard,
        flows=_flows(spec),
        in_step=spec.strategy.in_step,
        chunk_bytes=_chunk_bytes(spec),
        compute="replayed" if spec.is_replayed else "real",
        device=spec.device,
        dilation=spec.dilation,
        latency_s=spec.cluster.delays_s,
        notes=_notes(spec, order),
        threads=spec.threads_each,
    )


def cores_of(spec: RunSpec, nodes: Iterable[str], *, are_capped: bool = True) -> dict[str, float]:
    """How many cores each node may use: no more than there are."""
    there = usable_cores() or 1.0
    asked = {node: spec.cluster.cores_of(node) if are_capped else None for node in nodes}
    return {node: min(cores or there, there) for node, cores in asked.items()}


def _notes(spec: RunSpec, order: Order) -> list[str]:
    """Say how a latency was made, and how far a replayed device is from what was measured."""
    notes = [*latency_notes(spec), *_restart_notes(spec)]
    if is_placed(spec.device):
        return [*notes, note_of(spec.device)]
    if not spec.is_replayed:
        return notes
    rates = spec.rates()
    notes += [rates.note] if rates.note else []
    if rates.batch != order.batch:
        notes.append(
            f"{spec.device} was measured at a batch of {rates.batch}: "
            f"its times are scaled to {order.batch}"
        )
    return notes


def _restart_notes(spec: RunSpec) -> list[str]:
    """Say so where a loss means that all is done once more."""
    if spec.when_lost != "restart" or spec.keep_every is not None:
        return []
    more = "" if spec.is_replayed or spec.workload.is_script else ": give checkpoint_every"
    return [f"it has no checkpoints, so a lost seat starts it from the beginning{more}"]


def _chunk_bytes(spec: RunSpec) -> int | None:
    exchange = spec.strategy.pattern(spec.num_workers)
    return exchange.chunk_bytes if isinstance(exchange, Servers) else None


def _flows(spec: RunSpec) -> list[tuple[str, str, float, str]] | None:
    """What the strategy's theory says travels in a step."""
    nodes = {seat.name: seat.node for seat in spec.seats() if seat.role == "worker"}
    flows = spec.strategy.flows(nodes)
    return None if flows is None else [*flows]
