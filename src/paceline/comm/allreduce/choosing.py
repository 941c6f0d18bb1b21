"""Which all-reduce by messages suits a size, a number of ranks and a network: `auto`.

A ring is tried with a tensor of one value per rank, which costs its hops, and with one of the size
that will travel, which costs its bytes too. Halving and doubling has fewer hops, and, unless the
number of ranks is a power of two, more bytes. Rank 0 decides for all, once per run: who comes later
is given what was chosen.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal, final

from paceline.comm.allreduce.base import AllReduce
from paceline.comm.allreduce.hops import largest_power, num_hops

if TYPE_CHECKING:
    from torch import Tensor

Chosen = Literal["ring", "halving"]
Algorithm = Literal[Chosen, "auto"]

_ALGORITHMS: Final[tuple[Chosen, ...]] = ("ring", "halving")
_TRIALS: Final = 5
# Less would be within the spread of what is measured.
_WORTH: Final = 0.9
_FLOAT_BYTES: Final = 4
_NS: Final = 1e9


@final
@dataclass(frozen=True, kw_only=True)
class Choice:
    """What was chosen, and why: the same on every rank."""

    algorithm: Chosen
    round_trip_s: float
    """To a neighbour and back."""
    whole_s: float
    """How long a ring takes for a tensor of the size that travels."""


def choose(ring: AllReduce, num_bytes: int) -> Choice:
    """Try a ring, together with all other ranks, and say what to use for tensors of a size."""
    import torch

    hops_s = _median_s(ring, torch.zeros(ring.num_ranks))
    whole_s = _median_s(ring, torch.zeros(max(ring.num_ranks, num_bytes // _FLOAT_BYTES)))
    told = torch.tensor([round(_NS * hops_s), round(_NS * whole_s)], dtype=torch.int64)
    ring.broadcast(told)
    hops_s, whole_s = (int(each) / _NS for each in told.tolist())
    num_ranks = ring.num_ranks
    is_shorter = halving_s(hops_s, whole_s, num_ranks) < _WORTH * whole_s
    return Choice(
        algorithm="halving" if is_shorter else "ring",
        round_trip_s=2 * hops_s / max(1, _ring_hops(num_ranks)),
        whole_s=whole_s,
    )


def agreed(ring: AllReduce, own: Choice | None) -> Choice | None:
    """Give what was chosen before, the same on every rank; None where no rank has chosen yet.

    `own` is None for a rank that has just come.
    """
    codes = ring.gather(0 if own is None else 1 + _ALGORITHMS.index(own.algorithm))
    holders = [rank for rank, code in enumerate(codes) if code]
    if not holders:
        return None
    trips_ns = ring.gather(0 if own is None else round(_NS * own.round_trip_s))
    whole_ns = ring.gather(0 if own is None else round(_NS * own.whole_s))
    first = holders[0]
    return Choice(
        algorithm=_ALGORITHMS[codes[first] - 1],
        round_trip_s=trips_ns[first] / _NS,
        whole_s=whole_ns[first] / _NS,
    )


def halving_s(hops_s: float, whole_s: float, num_ranks: int) -> float:
    """Predict halving and doubling from what a ring takes for its hops alone, and for all."""
    if num_ranks == 1:
        return whole_s
    bytes_s = max(0.0, whole_s - hops_s)
    by_hops = num_hops(num_ranks) / _ring_hops(num_ranks)
    return hops_s * by_hops + bytes_s * _sent_share(num_ranks) / _ring_share(num_ranks)


def _ring_hops(num_ranks: int) -> int:
    return 2 * (num_ranks - 1)


def _ring_share(num_ranks: int) -> float:
    return 2 * (num_ranks - 1) / num_ranks


def _sent_share(num_ranks: int) -> float:
    """What part of a tensor travels one after the other."""
    power = largest_power(num_ranks)
    return 2 * (power - 1) / power + 2 * (power != num_ranks)


def _median_s(ring: AllReduce, values: Tensor) -> float:
    ring.reduce(values)  # connections are made with the first
    times_s = []
    for _ in range(_TRIALS):
        began_s = perf_counter()
        ring.reduce(values)
        times_s.append(perf_counter() - began_s)
    return statistics.median(times_s)
