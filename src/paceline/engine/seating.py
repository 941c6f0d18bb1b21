"""A seat's place in the strategy: the model it starts with, and whom it shares what with."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable
from functools import partial
from typing import Final

import torch

from paceline.clusters.base import Berth
from paceline.comm.roster import Roster
from paceline.comm.seat_line import SeatLine
from paceline.comm.ticket import Ticket
from paceline.comm.words import Parted, Restored
from paceline.compute.replay import ReplayedUpdate
from paceline.engine.fingerprint import state_sums
from paceline.engine.server_returns import server_back_s, servers_return
from paceline.errors import Aborted, PeerLost
from paceline.measure.profile import Profile
from paceline.spec import RunSpec
from paceline.strategies.base import Place
from paceline.system.waiting import Deadline
from paceline.training.answers import model_of
from paceline.training.finite import Refusals
from paceline.training.optim import Optimizer
from paceline.training.replica import Replica
from paceline.training.state import State, Stateful
from paceline.workloads.anatomy import undrawn_model

# torch's random numbers are one for all threads, so inline seats make their models in turn.
BUILDING: Final = threading.Lock()
# How long the driver may take to settle reports that contradict each other, on a busy machine.
_DECIDING_S: Final = 15.0


def spec_of(ticket: Ticket) -> RunSpec:
    """Read what the ticket says is to be done."""
    assert ticket.orders.spec is not None, "these orders have no spec"
    return RunSpec.from_table(tomllib.loads(ticket.orders.spec))


def profile_of(berth: Berth, spec: RunSpec, count: int) -> Profile | None:
    """Look closely at worker 0 and at servers, where that was asked for."""
    another_worker = berth.seat.role == "worker" and berth.seat.index != 0
    # A process can have one profile at a time.
    beside_worker = berth.seat.role == "server" and spec.cluster.shares_process
    if not spec.record.profile or another_worker or beside_worker:
        return None
    return Profile(berth.sink, count=count)


def take_place(
    berth: Berth,
    spec: RunSpec,
    profile: Profile | None = None,
    opened: Callable[[Stateful], None] = lambda _: None,
    keep_snapshot: Callable[[State], bool] = lambda _: False,
) -> Place:
    """Make the model, the same in every process, and take the seat in the strategy."""
    torch.manual_seed(spec.seed)
    assert spec.optimizer is not None
    optimizer: Optimizer = spec.optimizer.for_workers(spec.num_workers)
    if spec.is_replayed and berth.seat.role == "worker":
        optimizer = ReplayedUpdate(update_s=spec.dilation * spec.rates().update_s)
    replica = _replica(spec)
    return Place(
        name=berth.seat.name,
        roster=_roster_with_servers(berth, spec),
        replica=replica,
        optimizer=optimizer,
        learns=not spec.is_replayed,
        state_sums={} if spec.is_replayed else state_sums(replica.model),
        refusals=Refusals(spec.most_refused),
        most_steps=spec.steps,
        own_node=berth.host,
        open_channel=berth.open_channel,
        address=berth.ticket.address,
        profiled=iter if profile is None else profile.over,
        opened=opened,
        is_late=berth.ticket.incarnation > 0,
        survives=spec.goes_on,
        may_start_again=spec.may_start_again,
        most_workers=spec.num_workers,
        servers_return=servers_return(spec),
        all_servers=spec.strategy.num_servers,
        keep_snapshot=keep_snapshot,
        say_parted=partial(_say_parted, berth.line),
        say_restored=lambda version, lost: berth.line.send(Restored(version, lost)),
        say_lost=berth.line.say_lost,
        newest_roster=lambda: berth.line.newest_roster,
        next_roster=next_rosters(berth.line, spec),
    )


def _say_parted(line: SeatLine, worker: str, incarnation: int, num_pushes: int) -> None:
    line.send(Parted(worker=worker, incarnation=incarnation, num_pushes=num_pushes))


def _roster_with_servers(berth: Berth, spec: RunSpec) -> Roster:
    """Wait until the servers are there that a worker talks to: one may be started again now."""
    roster = berth.line.roster()
    if berth.seat.role != "worker" or not servers_return(spec):
        return roster
    deadline = Deadline(server_back_s(spec))
    while roster.num_servers < spec.strategy.num_servers:
        newer = berth.line.await_roster(roster.epoch, deadline.left_s)
        if newer is None:
            raise Aborted(f"a server was not back within {server_back_s(spec):g} s")
        roster = newer
    return roster


def next_rosters(line: SeatLine, spec: RunSpec) -> Callable[[int, PeerLost | None], Roster]:
    """Give what waits until the driver says who is there now."""
    return partial(_next_roster, line, 2 * spec.detect_s + _DECIDING_S)


def _next_roster(line: SeatLine, timeout_s: float, epoch: int, lost: PeerLost | None) -> Roster:
    """Wait until the driver says who is there now."""
    if lost is not None:
        line.say_lost(lost)
    roster = line.await_roster(epoch, timeout_s)
    if roster is None:
        raise lost or Aborted(f"no roster came after that of epoch {epoch}, in {timeout_s:g} s")
    return roster


def _replica(spec: RunSpec) -> Replica:
    dtype, whole_table = getattr(torch, spec.dtype), not spec.strategy.moves_rows
    if not spec.is_replayed:
        return Replica(model_of(spec.workload), dtype, whole_table=whole_table)
    # Nothing is learnt from them, and drawing the values of a large model takes seconds.
    replica = Replica(undrawn_model(spec.workload), dtype, whole_table=whole_table)
    replica.parameters.zero_()
    return replica
