"""A worker's part in a ring: averages gradients with all others, updates its own parameters."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from paceline.comm.allreduce.base import AllReduce
from paceline.comm.allreduce.choosing import Algorithm
from paceline.comm.allreduce.forming import Forming
from paceline.comm.allreduce.overlapped import Overlapped
from paceline.comm.base import Regrouped
from paceline.errors import PeerLost
from paceline.strategies.all_reduce.buckets import SendOrder, cut
from paceline.strategies.all_reduce.equality import check_equal
from paceline.strategies.all_reduce.kept_choice import choice_as_state, choice_of
from paceline.strategies.all_reduce.regrouping import Standing, agree, share
from paceline.strategies.all_reduce.slots import Slots
from paceline.strategies.all_reduce.timing import Timing
from paceline.strategies.base import Member, Place
from paceline.training.finite import flaw_in
from paceline.training.optim import Update
from paceline.training.state import State, StateReader, attributes, picked

if TYPE_CHECKING:
    from torch import Tensor, nn


_KEPT: Final = ("global_steps", "_num_exchanged", "_update", "_departures", "_slots", "_timing")


@final
class RingMember(Member):
    """Buckets of gradients leave as back-propagation finishes them; all workers stay equal."""

    alike: ClassVar[tuple[str, ...]] = ("replica/parameters", "member/update")

    def __init__(
        self,
        place: Place,
        bucket_bytes: int,
        *,
        check_every: int,
        algorithm: Algorithm = "ring",
    ) -> None:
        self.replica = replica = place.replica
        self.global_steps: int = 0
        self._place = place
        self._check_every = check_every
        self._slots = Slots(place.name, place.roster.workers)
        self._all_reduce: AllReduce
        self._overlapped: Overlapped
        self._timing = Timing()
        self._num_exchanged = 0
        self._is_over = False
        self._num_dropped = 0
        # The same of all that are left, also from before this worker came.
        self._num_missed = 0
        self._has_values = not place.is_late
        self._learns = place.learns
        self._refusals = place.refusals
        count, dtype = replica.parameters.numel(), replica.parameters.dtype
        first = self._slots.num_values(dtype.itemsize, place.most_workers)
        self._forming = Forming(
            place.name,
            open_channel=lambda: place.channel,
            host=place.own_node,
            algorithm=algorithm,
            message_bytes=min((first + count) * dtype.itemsize, bucket_bytes),
        )
        values = self._begin_in(first + count)
        replica.move_to(parameters=replica.parameters, gradients=values[first:])
        self._values = values
        self._gradients = replica.gradients.numpy()
        buckets = cut(replica, bucket_bytes)
        self._stretches = [values[first + e.start : first + e.stop] for e in buckets]
        # The last holds the first layers and leaves at the end of a step, and so the slots too.
        self._stretches[-1] = values[: first + buckets[-1].stop]
        self._departures = SendOrder(buckets)
        self.overlaps = len(buckets) > 1
        self._update = Update(place.optimizer, replica.parameters)
        if not place.is_late:
            # All start from the same values, whatever each process drew.
            self._all_reduce.broadcast(replica.parameters)
            self._sent_before = self._all_reduce.sent_bytes
            self._received_before = self._all_reduce.received_bytes

    def _begin_in(self, num_values: int) -> Tensor:
        """Form with the others, unless they train already; gives memory for slots and gradients."""
        import torch

        replica, roster = self.replica, self._place.roster
        self._roster, self._sent_before, self._received_before = roster, 0, 0
        if self._place.is_late:
            values = torch.zeros(num_values, dtype=replica.parameters.dtype)
        else:
            room_bytes = num_values * replica.parameters.element_size()
            self._all_reduce = self._forming.form(roster, room_bytes=room_bytes)
            self._overlapped = Overlapped(self._all_reduce)
            values = self._all_reduce.allocate(num_values, replica.parameters.dtype)
        self._slots.lie_in(values)
        return values

    def begin(self, *, last: bool) -> None:
        if self._place.survives:
            self.regroup()  # who hardly waits hears of nobody that comes
        if not self.overlaps:  # else a thread of its own may be the one that reduces
            self._all_reduce.meanwhile = None if last else self.meanwhile
        self._timing.begin()

    def ready(self, parameter: nn.Parameter) -> None:
        for index in self._departures.note(parameter):
            self._overlapped.begin(self._stretches[index])

    def exchange(self, *, last: bool) -> bool:
        try:
            return self._exchange(last=last)
        except (Regrouped, PeerLost) as error:
            before = self._num_exchanged
            self._meet_again(error)
            is_dropped = self._num_exchanged == before
            self._num_dropped += is_dropped
            self._num_missed += is_dropped
            return self._is_over

    def _exchange(self, *, last: bool) -> bool:
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
        self._is_over = must_stop
        self._apply()
        if self._learns and (must_stop or self._is_time_to_check()):
            values = self.replica.parameters
            check_equal(self._all_reduce, values, self._num_exchanged, self._roster.workers)
        return must_stop

    @property
    def num_begun(self) -> int:
        return self._num_exchanged + self._num_missed

    def enter(self) -> bool:
        self._meet_again(Regrouped("the others train already"))
        return self._is_over

    def regroup(self) -> None:
        newest = self._place.newest_roster()
        if newest is not None and self._forming.has_changed(newest):
            self._meet_again(Regrouped("members changed while this worker rested"))

    def _meet_again(self, error: Regrouped | PeerLost) -> None:
        """Form the ring again with those that are there, as often as that takes."""
        if not self._place.survives:
            raise error
        while True:
            lost = error if isinstance(error, PeerLost) else None
            self._roster = self._place.next_roster(self._roster.epoch, lost)
            try:
                self._form_again()
                return
            except (Regrouped, PeerLost) as another:
                error = another

    def _form_again(self) -> None:
        carried = self.exchanged()
        self._departures.begin()
        self._slots.follow(self._roster.workers)
        self._slots.lie_in(self._values)
        if self._has_values or self._num_exchanged:
            self._overlapped.close()
        self._all_reduce = self._forming.form(self._roster)
        self._overlapped = Overlapped(self._all_reduce)
        self._sent_before = self._all_reduce.sent_bytes - carried["sent_bytes"]
        self._received_before = self._all_reduce.received_bytes - carried["received_bytes"]
        own = Standing(self._num_exchanged, self._is_over) if self._has_values else None
        furthest, source = agree(self._all_reduce, own)
        if source is not None:
            self._take_over(furthest, source, keeps_own=own == furthest)

    def _take_over(self, furthest: Standing, source: int, *, keeps_own: bool) -> None:
        """Give everyone the values of one that is the furthest, and how far it is."""
        import torch

        order = torch.tensor([self.global_steps, self._num_missed, *self._departures.order])
        kept = [self.replica.parameters, *self._update.states, order]
        shared = share(self._all_reduce, source, kept)
        if keeps_own:
            return
        for own, new in zip(kept, shared, strict=True):
            own.copy_(new)
        self.global_steps, self._num_missed, *self._departures.order = map(int, order.tolist())
        self._num_exchanged, self._is_over = furthest
        self._has_values = True

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
        if not self._has_values:  # it has met nobody yet
            return {"sent_bytes": 0, "received_bytes": 0}
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
            **({"dropped_steps": self._num_dropped} if self._num_dropped else {}),
            **self._timing.table(),
            **self._chosen(),
        }

    def _chosen(self) -> Mapping[str, Any]:
        """What `auto` chose, on a worker that talks to other nodes."""
        choice = self._forming.choice
        if choice is None:
            return {}
        return {"algorithm": choice.algorithm, "round_trip_s": choice.round_trip_s}

    def state(self) -> State:
        choice = choice_as_state(self._forming.choice)
        return {**attributes(self, *_KEPT), **self.exchanged(), **choice}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, *_KEPT)
            if "choice" in state:
                self._forming.take(choice_of(fields.table("choice")))
            self._sent_before = self._all_reduce.sent_bytes - fields.whole("sent_bytes")
            self._received_before = self._all_reduce.received_bytes - fields.whole("received_bytes")

    def adopt(self, state: State) -> None:
        with StateReader(picked(state, "global_steps", "update")) as fields:
            fields.attributes(self, "global_steps", "_update")

    def close(self) -> None:
        if self._has_values:
            self._overlapped.close()
