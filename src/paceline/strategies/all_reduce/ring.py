"""A worker's part in a ring: averages gradients with all others, updates its own parameters."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, final

from paceline.comm.allreduce.base import AllReduce
from paceline.comm.allreduce.hierarchical import HierarchicalAllReduce
from paceline.comm.allreduce.overlapped import Overlapped
from paceline.comm.allreduce.ring import RingAllReduce
from paceline.comm.allreduce.shared import SharedAllReduce
from paceline.finite import flaw_in
from paceline.optim import Update
from paceline.strategies.all_reduce.buckets import Departures, cut
from paceline.strategies.all_reduce.describe import workers_by_node
from paceline.strategies.all_reduce.equality import check_equal
from paceline.strategies.all_reduce.slots import Slots
from paceline.strategies.all_reduce.timing import Timing
from paceline.strategies.base import Member, Place

if TYPE_CHECKING:
    from torch import nn

    from paceline.comm.shared import Host


@final
class RingMember(Member):
    """Buckets of gradients leave as back-propagation finishes them; all workers stay equal."""

    def __init__(self, place: Place, bucket_bytes: int, check_every: int) -> None:
        self.replica = replica = place.replica
        self.global_steps: int = 0
        self._check_every = check_every
        self._slots = Slots(place.rank, place.num_workers)
        count, dtype = replica.parameters.numel(), replica.parameters.dtype
        first = self._slots.num_values(dtype.itemsize)
        self._all_reduce = _all_reduce(place, (first + count) * dtype.itemsize)
        values = self._all_reduce.allocate(first + count, dtype)
        self._slots.lie_in(values)
        replica.move_to(parameters=replica.parameters, gradients=values[first:])
        self._gradients = replica.gradients.numpy()
        buckets = cut(replica, bucket_bytes)
        self._stretches = [values[first + e.start : first + e.stop] for e in buckets]
        # The last holds the first layers and leaves at the end of a step, and so the slots too.
        self._stretches[-1] = values[: first + buckets[-1].stop]
        self._departures = Departures(buckets)
        self.overlaps = len(buckets) > 1
        self._overlapped = Overlapped(self._all_reduce)
        self._timing = Timing()
        self._update = Update(place.optimizer, replica.parameters)
        self._learns = place.learns
        self._refusals = place.refusals
        self._num_exchanged = 0
        # All start from the same values, whatever each process drew.
        self._all_reduce.broadcast(replica.parameters)
        self._sent_before = self._all_reduce.sent_bytes
        self._received_before = self._all_reduce.received_bytes

    def begin(self, *, last: bool) -> None:
        del last
        self._timing.begin()

    def ready(self, parameter: nn.Parameter) -> None:
        for index in self._departures.note(parameter):
            self._overlapped.begin(self._stretches[index])

    def exchange(self, *, last: bool) -> bool:
        timing, departures = self._timing, self._departures
        timing.arrive()
        self._slots.write(last=last)
        reductions = self._overlapped.finish([self._stretches[i] for i in departures.rest()])
        must_stop = self._slots.read(timing.since_arrival_s())
        for index, each in zip(departures.order, reductions, strict=True):
            timing.note(index, each.values.nbytes, each.began_ns, each.ended_ns)
        if self._num_exchanged == 0 and self.overlaps:
            self._agree_on_order()
        departures.begin()
        self._num_exchanged += 1
        self._apply()
        if self._learns and (must_stop or self._is_time_to_check()):
            check_equal(self._all_reduce, self.replica.parameters, self._num_exchanged)
        return must_stop

    def _is_time_to_check(self) -> bool:
        return bool(self._check_every) and self._num_exchanged % self._check_every == 0

    def _apply(self) -> None:
        """Update the parameters; a mean that is not finite is refused, by all alike."""
        began_ns = perf_counter_ns()
        flaw = flaw_in(self._gradients) if self._learns else None
        if flaw is not None:
            self._refusals.note(flaw, after=self.global_steps)
            return
        self.global_steps += 1
        self._update.apply(self.replica.gradients, self.global_steps)
        self._timing.applied(began_ns)

    def _agree_on_order(self) -> None:
        """Let buckets leave from now on in the order in which rank 0 saw them finished."""
        import torch

        order = torch.tensor(self._departures.seen_order())
        self._all_reduce.broadcast(order)
        self._departures.order = [int(index) for index in order.tolist()]

    def exchanged(self) -> Mapping[str, int]:
        return {
            "sent_bytes": self._all_reduce.sent_bytes - self._sent_before,
            "received_bytes": self._all_reduce.received_bytes - self._received_before,
        }

    def counted(self) -> Mapping[str, Any]:
        return {
            **self.exchanged(),
            "times_last": self._slots.times_last,
            "late_s": self._slots.late_s,
            "wait_s": self._slots.wait_s,
            **self._timing.table(),
        }

    def close(self) -> None:
        self._overlapped.close()


def _all_reduce(place: Place, room_bytes: int) -> AllReduce:
    """Reduce through shared memory on one host, around a ring of messages between hosts."""
    names = [f"worker{rank}" for rank in range(place.num_workers)]
    if place.host is not None:
        return SharedAllReduce(place.rank, names, place.host, room_bytes)
    if len(set(place.nodes)) == len(place.nodes) or place.own_node is None:
        return RingAllReduce(place.rank, names, place.channel)
    return _in_storeys(place, place.own_node, room_bytes)


def _in_storeys(place: Place, own_node: Host, room_bytes: int) -> AllReduce:
    """Only the first worker of each node talks to other nodes."""
    groups = workers_by_node(place.nodes)
    mine = groups[place.nodes[place.rank]]
    name = f"worker{place.rank}"
    within = SharedAllReduce(mine.index(name), mine, own_node, room_bytes)
    leaders = [group[0] for group in groups.values()]
    between = None
    if name in leaders:
        between = RingAllReduce(leaders.index(name), leaders, place.channel)
    return HierarchicalAllReduce(place.rank, place.num_workers, within, between)
