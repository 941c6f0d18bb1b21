"""The all-reduce strategies one can ask for: our own, and torch's."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Annotated, final

from annotated_types import Ge

from paceline.description import Bytes
from paceline.strategies.base import Flow, Member, Place, Strategy


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


def workers_by_node(nodes: Sequence[str]) -> dict[str, list[str]]:
    """Name the workers of each node, given the node of each."""
    groups: dict[str, list[str]] = {}
    for rank, node in enumerate(nodes):
        groups.setdefault(node, []).append(f"worker{rank}")
    return groups


def _around(names: Sequence[str]) -> list[Flow]:
    """Twice around a ring, each time all but one of as many chunks as there are in it."""
    share = 2 * (len(names) - 1) / len(names)
    followers = [*names[1:], names[0]]
    return [Flow(name, after, share, name) for name, after in zip(names, followers, strict=True)]


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

    def flows(self, nodes: Sequence[str]) -> Sequence[Flow]:
        """Only the first worker of each node talks to other nodes."""
        return _around([group[0] for group in workers_by_node(nodes).values()])

    def join(self, place: Place) -> Member:
        from paceline.strategies.all_reduce.ring import RingMember

        return RingMember(place, self.bucket_bytes, self.check_every)


@final
class Ddp(Averaging):
    """torch's own DistributedDataParallel: Gloo between processors, NCCL between GPUs."""

    find_unused: bool = False
    """Whether each step looks which parameters its loss uses, as torch's find_unused_parameters."""

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

    def flows(self, nodes: Sequence[str]) -> Sequence[Flow]:
        return _around([f"worker{rank}" for rank in range(len(nodes))])

    def join(self, place: Place) -> Member:
        from paceline.strategies.all_reduce.ddp import DdpMember

        return DdpMember(place, self.bucket_bytes, find_unused=self.find_unused)
