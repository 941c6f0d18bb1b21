"""The all-reduce strategies one can ask for: our own, and torch's."""

from __future__ import annotations

from abc import ABC
from typing import Annotated, final

from annotated_types import Ge

from paceline.description import Bytes
from paceline.strategies.base import Member, Place, Strategy


class Averaging(Strategy, ABC):
    """Every worker applies the average of all workers' gradients to its own parameters."""

    bucket_bytes: Bytes = 4 << 20
    """Gradients leave in groups of about this size, while earlier layers still compute."""

    @property
    def equals_single(self) -> bool:
        return True

    @property
    def repeats(self) -> bool:
        return True


@final
class Ring(Averaging):
    """Gradients go round a ring of workers, or through shared memory within a host."""

    check_every: Annotated[int, Ge(0)] = 1000
    """After how many steps workers compare their parameters, which must be equal to the bit; 0:
    never."""

    @property
    def name(self) -> str:
        return "ring"

    def meaning(self, num_workers: int) -> str:
        return f"synchronous, all-reduce, {num_workers} of {num_workers} gradients"

    def join(self, place: Place) -> Member:
        from paceline.strategies.all_reduce.ring import RingMember

        return RingMember(place, self.bucket_bytes, self.check_every)


@final
class Ddp(Averaging):
    """torch's own DistributedDataParallel: Gloo between processors, NCCL between GPUs."""

    @property
    def name(self) -> str:
        return "ddp"

    @property
    def needs_processes(self) -> bool:
        return True

    @property
    def connects_itself(self) -> bool:
        return True

    @property
    def needs_autograd(self) -> bool:
        return True

    @property
    def imports(self) -> tuple[str, ...]:
        return ("paceline.strategies.all_reduce.ddp", "torch._dynamo")

    def meaning(self, num_workers: int) -> str:
        return f"synchronous, torch DDP, {num_workers} of {num_workers} gradients"

    def join(self, place: Place) -> Member:
        from paceline.strategies.all_reduce.ddp import DdpMember

        return DdpMember(place, self.bucket_bytes)
