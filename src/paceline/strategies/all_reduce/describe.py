"""The all-reduce strategies one can ask for: our own, and torch's."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, final

from annotated_types import Ge

from paceline.arithmetic.exchange import AllReducePattern
from paceline.comm.allreduce.hops import hops_of, largest_power
from paceline.comm.roster import by_node
from paceline.description import Bytes
from paceline.strategies.base import Flow, Member, Place, Strategy

# torch sends a small bucket first, so that something travels soon.
_TORCH_FIRST_BUCKET_BYTES: Final = 1 << 20


class Averaging(Strategy, ABC):
    """Every worker applies the average of all workers' gradients to its own parameters."""

    bucket_bytes: Bytes = 4 << 20
    """Gradients leave in groups of about this size, while earlier layers still compute."""

    @property
    def equals_single(self) -> bool:
        return True

    @property
    def in_step(self) -> bool:
        return True

    @property
    def scripts(self) -> Literal["averaged"]:
        return "averaged"


def around(names: Sequence[str]) -> list[Flow]:
    """Twice around a ring, each time all but one of as many chunks as there are in it."""
    share = 2 * (len(names) - 1) / len(names)
    followers = [*names[1:], names[0]]
    return [Flow(name, after, share, name) for name, after in zip(names, followers, strict=True)]


def _halved(names: Sequence[str]) -> list[Flow]:
    """By recursive halving and doubling, each exchange for itself."""
    power = largest_power(len(names))
    return [
        Flow(name, names[hop.partner], len(hop.sends) / power, name)
        for rank, name in enumerate(names)
        for hop in (hops_of(rank, len(names)) if len(names) > 1 else ())
        if hop.sends
    ]


@final
class Ring(Averaging):
    """Gradients go round a ring of workers, or through shared memory within a host."""

    check_every: Annotated[int, Ge(0)] = 1000
    """After how many steps workers compare their parameters, which must be equal to the bit; 0:
    never."""
    algorithm: Literal["ring", "halving", "auto"] = "ring"
    """How messages between nodes add up: around a `ring`, or by recursive `halving` and doubling,
    which has fewer hops; `auto` measures once, when the workers meet, and says what it chose."""

    @property
    def repeats(self) -> bool:
        """Another run of `auto` may measure otherwise; with what it chose given, it repeats."""
        return self.algorithm != "auto"

    @property
    def survives_workers(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "ring"

    def meaning(self, num_workers: int) -> str:
        return f"synchronous, all-reduce, {num_workers} of {num_workers} gradients"

    def flows(self, nodes: Mapping[str, str]) -> Sequence[Flow] | None:
        """Only the first worker of each node talks to other nodes; how, `auto` finds out later."""
        if self.algorithm == "auto":
            return None
        leaders = [group[0] for group in by_node(nodes).values()]
        return _halved(leaders) if self.algorithm == "halving" else around(leaders)

    def pattern(self, num_workers: int) -> AllReducePattern:
        del num_workers
        return AllReducePattern(bucket_bytes=self.bucket_bytes, algorithm=self.algorithm)

    def join(self, place: Place) -> Member:
        from paceline.strategies.all_reduce.ring import RingMember

        return RingMember(
            place, self.bucket_bytes, check_every=self.check_every, algorithm=self.algorithm
        )


@final
class Ddp(Averaging):
    """torch's own DistributedDataParallel, over Gloo: between processors, not between GPUs."""

    find_unused: bool = False
    """Whether each step looks which parameters its loss uses, as torch's find_unused_parameters."""

    @property
    def repeats(self) -> bool:
        return True

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

    def flows(self, nodes: Mapping[str, str]) -> Sequence[Flow]:
        return around([*nodes])

    def pattern(self, num_workers: int) -> AllReducePattern:
        del num_workers
        return AllReducePattern(
            bucket_bytes=self.bucket_bytes,
            first_bucket_bytes=min(self.bucket_bytes, _TORCH_FIRST_BUCKET_BYTES),
            shares_memory=False,
        )

    def join(self, place: Place) -> Member:
        from paceline.strategies.all_reduce.ddp import DdpMember

        return DdpMember(place, self.bucket_bytes, find_unused=self.find_unused)
