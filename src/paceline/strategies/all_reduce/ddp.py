"""A worker's part in torch's DistributedDataParallel, on the same harness as all others.

Torch averages gradients inside of `backward`. A hook on its buckets tells when each leaves and
arrives, and sends along with the last one what this worker has to say to the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from paceline.errors import PeerLost, Problem, SpecError
from paceline.strategies.all_reduce.meeting import join_group
from paceline.strategies.all_reduce.slots import Slots
from paceline.strategies.all_reduce.timing import Timing
from paceline.strategies.base import Member, Place
from paceline.training.finite import flaw_in
from paceline.training.optim import Update
from paceline.training.state import State, Stateful, StateReader, attributes, picked

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch._C._distributed_c10d import GradBucket
    from torch.futures import Future

    from paceline.training.replica import Replica

_MEBIBYTE: Final = 1 << 20
_KEPT: Final = ("global_steps", "_update", "_slots", "_exchange")


@final
class DdpMember(Member):
    """Joins a process group, wraps the model, and applies the averaged gradients."""

    alike: ClassVar[tuple[str, ...]] = ("replica/parameters", "member/update")

    def __init__(self, place: Place, bucket_bytes: int, *, find_unused: bool) -> None:
        self.replica = place.replica
        self.global_steps: int = 0
        self._bucket_bytes = bucket_bytes
        self._find_unused = find_unused
        self._slots = Slots(place.name, place.roster.workers)
        parameters = place.replica.parameters
        said = parameters.new_zeros(self._slots.num_values(parameters.element_size()))
        self._slots.lie_in(said)
        self._exchange = _Exchange(place.num_workers, said)
        self._update = Update(place.optimizer, parameters)
        self._learns = place.learns
        self._refusals = place.refusals
        self._vigil = join_group(place)

    def wrap(self, model: nn.Module) -> nn.Module:
        # Buffers stay with each worker, as under every other strategy.
        wrapped = DistributedDataParallel(
            model,
            forward_sync_buffers=False,
            bucket_cap_mb=self._bucket_bytes / _MEBIBYTE,
            find_unused_parameters=self._find_unused,
        )
        # Not the method itself: torch reads annotations, and ours are only text.
        wrapped.register_comm_hook(None, lambda _state, bucket: self._exchange.average(bucket))
        return wrapped

    def begin(self, *, last: bool) -> None:
        self._slots.write(last=last)
        self._exchange.begin()

    def exchange(self, *, last: bool) -> bool:
        del last
        if not self._exchange.is_complete:
            raise _unused(self.replica)
        must_stop = self._slots.read(self._exchange.finish())
        began_ns = perf_counter_ns()
        gradients = self.replica.gradients
        flaw = flaw_in(gradients.numpy()) if self._learns else None
        if flaw is not None:
            self._refusals.note(flaw, after=self.global_steps)
            return must_stop
        self.global_steps += 1
        self._update.apply(gradients, self.global_steps)
        self._exchange.timing.applied(began_ns)
        return must_stop

    def take_waited_ns(self) -> int:
        return self._exchange.take_waited_ns()

    def is_lost_peer(self, error: Exception) -> bool:
        return isinstance(error, RuntimeError) and "gloo" in str(error).lower()

    def lost_peer(self) -> PeerLost | None:
        return self._vigil.lost

    def counted(self) -> Mapping[str, Any]:
        return {
            "times_last": self._slots.times_last,
            "late_s": self._slots.late_s,
            "wait_s": self._slots.wait_s,
            **self._exchange.timing.table(),
        }

    def state(self) -> State:
        return attributes(self, *_KEPT)

    def load(self, state: State) -> None:
        """Torch lays its buckets out anew after the first step it makes.

        With three workers or more, that step may then add up in another order than it would have.
        """
        with StateReader(state) as fields:
            fields.attributes(self, *_KEPT)

    def adopt(self, state: State) -> None:
        with StateReader(picked(state, "global_steps", "update")) as fields:
            fields.attributes(self, "global_steps", "_update")

    def close(self) -> None:
        self._vigil.close()
        if dist.is_initialized():
            dist.destroy_process_group()


@final
class _Exchange(Stateful):
    """What happens to torch's buckets in one step."""

    def __init__(self, num_workers: int, said: Tensor) -> None:
        self.timing = Timing()
        self._num_workers = num_workers
        self._said = said
        self._joined = said
        self._arrived_ns = 0
        self._waited_ns = 0
        self._exchanged: list[tuple[int, int, int, int]] = []
        self.is_complete = False
        """Whether the last bucket has left: torch waits for all gradients before it does."""

    def begin(self) -> None:
        self.is_complete = False
        self.timing.begin()

    def average(self, bucket: GradBucket) -> Future[Tensor]:
        """Torch's hook: begin to average one bucket."""
        began_ns = perf_counter_ns()
        values, index, is_last = bucket.buffer(), bucket.index(), bucket.is_last()
        if is_last:
            self.is_complete = True
            self.timing.arrive()
            self._arrived_ns = began_ns
            values = self._join(values)
        values.div_(self._num_workers)
        future = dist.all_reduce(values, async_op=True).get_future()

        def finish(done: Future[list[Tensor]]) -> Tensor:
            averaged = done.value()[0]
            self._exchanged.append((index, averaged.nbytes, began_ns, perf_counter_ns()))
            return self._part(averaged) if is_last else averaged

        averaged: Future[Tensor] = future.then(finish)
        return averaged

    def _join(self, values: Tensor) -> Tensor:
        """Put what the worker has to say behind the last bucket's gradients."""
        count = values.numel() + self._said.numel()
        if self._joined.numel() != count:
            self._joined = values.new_empty(count)
        return torch.cat((values, self._said), out=self._joined)

    def _part(self, joined: Tensor) -> Tensor:
        count = joined.numel() - self._said.numel()
        self._said.copy_(joined[count:])
        return joined[:count]

    def finish(self) -> float:
        """After `backward`, which has waited for all buckets; returns for how long it did."""
        waited_ns = perf_counter_ns() - self._arrived_ns
        self._waited_ns += waited_ns
        for each in self._exchanged:
            self.timing.note(*each)
        self._exchanged.clear()
        return waited_ns / 1e9

    def take_waited_ns(self) -> int:
        waited_ns, self._waited_ns = self._waited_ns, 0
        return waited_ns

    def state(self) -> State:
        return attributes(self, "timing", "_waited_ns")

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "timing", "_waited_ns")


def _unused(replica: Replica) -> SpecError:
    """Say which parameters got no gradient: torch's engine would wait for them for ever."""
    names = [name for name, each in replica.model.named_parameters() if each in replica.places]
    unused = [
        name
        for name, place in zip(names, replica.places.values(), strict=True)
        if not replica.gradients[place].any()
    ]
    reason = (
        f"the loss does not use all parameters (no gradient: {', '.join(unused[:5])}), "
        "and ddp waits for each: set strategy.find_unused = true"
    )
    return SpecError([Problem("strategy.find_unused", False, reason)])
