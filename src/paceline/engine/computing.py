"""What computes a worker's gradients: this processor, another device, or a timer in their place."""

from __future__ import annotations

from paceline.compute.awaiting import Awaiting
from paceline.compute.base import Compute
from paceline.compute.devices import device_of, is_placed
from paceline.compute.placed import Placed
from paceline.compute.real import Real
from paceline.compute.replay import Replay
from paceline.compute.varying import Varying
from paceline.errors import Problem, SpecError
from paceline.spec import RunSpec
from paceline.strategies.base import Member
from paceline.training.replica import Replica
from paceline.workloads.anatomy import examine
from paceline.workloads.base import formula_of, has_own_loop


def compute_of(spec: RunSpec, member: Member, replica: Replica, rank: int, batch: int) -> Compute:
    """Make what a spec asks for, for one worker."""
    ready = member.ready if member.overlaps else None
    if spec.is_replayed:
        return _replay(spec, member, replica, rank, batch)
    if is_placed(spec.device):
        return Placed(spec.workload.loss, replica, ready, device_of(spec.device))
    formula = None if spec.strategy.needs_autograd else formula_of(spec.workload)
    # A loop of the user's own may look at the model between two steps.
    member.awaits = member.can_await and formula is None and not has_own_loop(spec.workload)
    awaiting = None
    if member.awaits:
        awaiting = Awaiting(replica, member.await_parameters, member.note_waited)
    return Real(
        spec.workload.loss,
        replica,
        ready,
        member.wrap(replica.model),
        formula=formula,
        keeps_changes=member.keeps_changes,
        awaiting=awaiting,
    )


def _replay(spec: RunSpec, member: Member, replica: Replica, rank: int, batch: int) -> Replay:
    if replica.table is not None:
        reason = "sparse models cannot be replayed; use --device cpu"
        raise SpecError([Problem("workload", spec.workload.name, reason)])
    layers = examine(spec.workload).layers
    rates = spec.rates()
    times = rates.layer_times([(each.name, each.multiply_adds) for each in layers], batch)
    ready = member.ready if member.overlaps else None
    member.awaits = member.can_await
    replay = Replay(
        replica,
        ready,
        times,
        rank=rank,
        dilation=spec.dilation,
        wait=member.await_parameters if member.awaits else None,
        note_ns=member.note_waited,
        varying=Varying(
            rates.step_factors if rates.varies else (),
            slowness=rates.slowness_of(rank),
            rank=rank,
        ),
    )
    if spec.strategy.needs_autograd:
        replay.through_autograd(member.wrap)
    return replay
