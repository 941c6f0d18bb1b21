"""A seat's place in the strategy: the model it starts with, and whom it shares what with."""

from __future__ import annotations

import torch

from paceline.anatomy import undrawn_model
from paceline.answers import model_of
from paceline.clusters.base import Berth
from paceline.compute.replay import ReplayedUpdate
from paceline.fingerprint import state_sums
from paceline.finite import Refusals
from paceline.measure.profile import Profile
from paceline.optim import Optimizer
from paceline.replica import Replica
from paceline.runs import RunDir
from paceline.spec import RunSpec
from paceline.strategies.base import Place


def profile_of(berth: Berth, spec: RunSpec, count: int) -> Profile | None:
    """Look closely at worker 0 and at servers, where that was asked for."""
    another_worker = berth.seat.role == "worker" and berth.seat.index != 0
    # A process can have one profile at a time.
    beside_worker = berth.seat.role == "server" and spec.cluster.shares_process
    if not spec.record.profile or another_worker or beside_worker:
        return None
    return Profile(berth.seat.name, RunDir(berth.run_dir).profile, count=count)


def take_place(berth: Berth, spec: RunSpec, profile: Profile | None = None) -> Place:
    """Make the model, the same in every process, and take the seat in the strategy."""
    torch.manual_seed(spec.seed)
    assert spec.optimizer is not None
    optimizer: Optimizer = spec.optimizer.for_workers(spec.num_workers)
    if spec.is_replayed and berth.seat.role == "worker":
        optimizer = ReplayedUpdate(update_s=spec.dilation * spec.rates().update_s)
    replica = _replica(spec)
    seats = spec.seats()
    nodes = {seat.node for seat in seats}
    return Place(
        rank=berth.seat.index,
        num_workers=spec.num_workers,
        num_servers=spec.strategy.num_servers,
        replica=replica,
        optimizer=optimizer,
        learns=not spec.is_replayed,
        state_sums={} if spec.is_replayed else state_sums(replica.model),
        refusals=Refusals(spec.most_refused),
        most_steps=spec.steps,
        host=berth.host if len(nodes) == 1 else None,
        nodes=tuple(seat.node for seat in seats if seat.role == "worker"),
        own_node=berth.host,
        open_channel=berth.open_channel,
        address=berth.address,
        profiled=iter if profile is None else profile.over,
    )


def _replica(spec: RunSpec) -> Replica:
    dtype, whole_table = getattr(torch, spec.dtype), not spec.strategy.moves_rows
    if not spec.is_replayed:
        return Replica(model_of(spec.workload), dtype, whole_table=whole_table)
    # Nothing is learnt from them, and drawing the values of a large model takes seconds.
    replica = Replica(undrawn_model(spec.workload), dtype, whole_table=whole_table)
    replica.parameters.zero_()
    return replica
