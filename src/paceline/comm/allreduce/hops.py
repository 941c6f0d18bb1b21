"""Who exchanges what with whom in recursive halving and doubling (`halving.py`)."""

from __future__ import annotations

from typing import NamedTuple


class Hop(NamedTuple):
    """An exchange with another rank, in chunks of which there are as many as the power of two."""

    partner: int
    sends: range
    takes: range
    adds: bool
    """Whether what comes is added; else it is kept in place of what was there."""


def largest_power(num_ranks: int) -> int:
    """Give the largest power of two that is not above the number of ranks."""
    return 1 << (num_ranks.bit_length() - 1)


def num_hops(num_ranks: int) -> int:
    """Say how many messages follow each other until every rank has the sum."""
    power = largest_power(num_ranks)
    return 2 * (power.bit_length() - 1) + 2 * (power != num_ranks)


def hops_of(rank: int, num_ranks: int) -> list[Hop]:
    """List a rank's exchanges, in order.

    The first 2 (N - P) ranks are pairs, of which the odd one hands its values over.
    """
    power = largest_power(num_ranks)
    num_paired, every, none = 2 * (num_ranks - power), range(power), range(0)
    if rank < num_paired and rank % 2:
        return [Hop(rank - 1, every, none, adds=True), Hop(rank - 1, none, every, adds=False)]
    halving, doubling = _inner_hops(rank, num_paired, power)
    if rank >= num_paired:
        return [*halving, *doubling]
    takes = Hop(rank + 1, none, every, adds=True)
    gives = Hop(rank + 1, every, none, adds=False)
    return [takes, *halving, *doubling, gives]


def _inner_hops(rank: int, num_paired: int, power: int) -> tuple[list[Hop], list[Hop]]:
    """The exchanges among as many ranks as the power of two, numbered anew from 0 on."""
    number = rank // 2 if rank < num_paired else rank - num_paired // 2
    halving: list[Hop] = []
    mine, distance = range(power), power // 2
    while distance:
        lower, upper = mine[: len(mine) // 2], mine[len(mine) // 2 :]
        mine, other = (upper, lower) if number & distance else (lower, upper)
        partner = _rank_of(number ^ distance, num_paired)
        halving.append(Hop(partner, sends=other, takes=mine, adds=True))
        distance //= 2
    doubling = [Hop(each.partner, each.takes, each.sends, adds=False) for each in halving[::-1]]
    return halving, doubling


def _rank_of(number: int, num_paired: int) -> int:
    return 2 * number if number < num_paired // 2 else number + num_paired // 2
