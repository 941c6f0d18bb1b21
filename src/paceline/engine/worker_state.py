"""A worker's state: the states of its parts, under their names.

Taken while all workers rest between two steps, and loaded into a worker that is built and has not
begun. What the process used of its machine is not part of it: that is counted by process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.comm.ticket import Resumed
from paceline.engine.seating import BUILDING
from paceline.errors import StateError
from paceline.training.copies import completed, without
from paceline.training.random_numbers import RandomNumbers
from paceline.training.state import State, Stateful, StateReader, within

if TYPE_CHECKING:
    from paceline.engine.restoring import States
    from paceline.engine.worker import Worker


def worker_state(worker: Worker) -> State:
    """Give all that a worker has learnt and counted.

    Its servers must still be there: it may have to ask them whether it may go on. Its clock goes
    on while it rests, unless it was paused.
    """
    states = {name: part.state() for name, part in _parts(worker).items()}
    return {**states, "order": worker.feed.order.state(_own_start(worker))}


def load_worker(worker: Worker, state: State) -> None:
    """Have a worker continue where another was. Raises `StateError` where that does not fit."""
    with StateReader(state) as fields:
        for name, part in _parts(worker).items():
            fields.part(name, part)
        order = fields.table("order")
    with within("order"):
        worker.feed.order = worker.feed.order.continued(order)
    start, num_taken = worker.feed.order.start, worker.session.num_taken
    if start != num_taken:
        raise StateError("order.start", str(start), f"expected {num_taken}: as many as batches")


def _own_start(worker: Worker) -> int:
    return worker.feed.own_start(worker.session.num_taken)


def kept_state(worker: Worker, *, is_first: bool) -> State:
    """Give what a checkpoint has of a worker: the first one's also has what is alike in all."""
    member = worker.member
    left_out = member.pulled if is_first else (*member.pulled, *member.alike)
    return without(worker_state(worker), left_out)


def restore_worker(worker: Worker, states: States, resumed: Resumed) -> None:
    """Have a worker go on from a checkpoint. Raises `StateError` where that does not fit."""
    _restore(worker, states, resumed)
    # Its own clock had gone on until it copied it: rows of a run resumed twice would seem to be
    # later than the checkpoint that they belong to.
    worker.clock.load({"trained_s": resumed.time_s})


def _restore(worker: Worker, states: States, resumed: Resumed) -> None:
    name, member = worker.place.name, worker.member
    if not resumed.is_same_group:
        _adopt(worker, states.of(resumed.first))
        return
    state = states.of(name)
    if member.alike and name != resumed.first:
        state = completed(state, states.of(resumed.first), member.alike)
    if member.pulled:
        state = completed(state, _own_values(worker), member.pulled)
        member.refresh()
    with BUILDING:  # where seats share a process, others may draw their initial values just now
        load_worker(worker, state)


def _adopt(worker: Worker, state: State) -> None:
    """Go on from what another group of workers had learnt, about where that stood in the data."""
    member, fields = worker.member, StateReader(state)
    replica = completed({"replica": fields.table("replica")}, _own_values(worker), member.pulled)
    with within("replica"):
        worker.replica.load(StateReader(replica).table("replica"))
    with within("member"):
        member.adopt(fields.table("member"))
    if member.pulled:
        member.refresh()
    with within("clock"):
        worker.clock.load(fields.table("clock"))
    with within("order"):
        worker.feed.order = worker.feed.order.near(fields.table("order"))
    # What the others made is in the rows that the run begins with: it counts its own from 0.
    worker.session.enter(worker.feed.order.start, is_over=worker.session.last)


def _own_values(worker: Worker) -> State:
    return {"replica": worker.replica.state()}


def _parts(worker: Worker) -> dict[str, Stateful]:
    """The member comes first: it may bring newer values into the replica."""
    return {
        "member": worker.member,
        "replica": worker.replica,
        "refusals": worker.place.refusals,
        "session": worker.session,
        "recorder": worker.recorder,
        "clock": worker.clock,
        "data": worker.train_data,
        "compute": worker.compute,
        "random": RandomNumbers(),
    }
