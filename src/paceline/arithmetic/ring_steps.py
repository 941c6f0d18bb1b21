"""Steps of a ring whose links differ, followed from one to the next.

A node behind a slow link is always the last, and what still passes that link passes while it
computes: for its neighbours are ahead, and have sent what it needs next. So computing may cost
nothing at all, as long as the slow link is busy. How much of it depends on every link on the way,
and no sum says that: here every segment is followed over some steps, until these are alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from paceline.arithmetic.costs import Costs
from paceline.arithmetic.network import HEADER_BYTES, Network
from paceline.arithmetic.ring import rate_between, segment_bytes

_STEPS: Final = 16
_COUNTED: Final = 6
"""The last ones, when what is under way at the beginning of a step has settled."""
_MOST_SEGMENTS: Final = 250_000
ReadyBucket = tuple[float, float]
"""When it may leave, after its step began, and its bytes."""


def followed_step_s(
    buckets: Sequence[Sequence[ReadyBucket]],
    compute_s: Sequence[float],
    update_s: float,
    network: Network,
    costs: Costs,
) -> float | None:
    """Say how long a step takes, given each node's buckets; None where it is too much to follow."""
    num_nodes = len(compute_s)
    if _num_segments(buckets[0], num_nodes) > _MOST_SEGMENTS:
        return None
    rates = [rate_between(node, network, num_nodes).bytes_per_s for node in range(num_nodes)]
    free_s, starts_s, began_s = [0.0] * num_nodes, [0.0] * num_nodes, list[float]()
    for _ in range(_STEPS):
        began_s.append(max(starts_s))
        ends_s = [start + own for start, own in zip(starts_s, compute_s, strict=True)]
        for of_nodes in zip(*buckets, strict=True):
            ready_s = [start + each[0] for start, each in zip(starts_s, of_nodes, strict=True)]
            came_s = _around(of_nodes[0][1], ready_s, free_s, rates, network=network, costs=costs)
            ends_s = list(map(max, ends_s, came_s))
        starts_s = [each + update_s for each in ends_s]
    return (max(starts_s) - began_s[-_COUNTED]) / _COUNTED


def _num_segments(buckets: Sequence[ReadyBucket], num_nodes: int) -> int:
    chunks = [num_bytes / num_nodes for _, num_bytes in buckets]
    each = sum(math.ceil(chunk / segment_bytes(chunk)) for chunk in chunks)
    return _STEPS * num_nodes * 2 * (num_nodes - 1) * each


def _around(
    num_bytes: float,
    ready_s: Sequence[float],
    free_s: list[float],
    rates: Sequence[float],
    *,
    network: Network,
    costs: Costs,
) -> list[float]:
    """Pass a bucket around, on links that are free from `free_s` on; says when each has its sums.

    A segment leaves when the one before has, and when what is added to it has come.
    """
    num_nodes, sizes = len(ready_s), _sizes(num_bytes / len(ready_s))
    came_s = [[ready] * len(sizes) for ready in ready_s]
    handled_s = 2 * costs.message(sizes[0]) + costs.add_s_per_byte * sizes[0]
    delay_s, burst_s = network.latency_s + handled_s, network.burst_s
    for _hop in range(2 * (num_nodes - 1)):
        arrivals: list[list[float]] = []
        for node in range(num_nodes):
            free, rate, own_s, arrived = free_s[node], rates[node], ready_s[node], list[float]()
            for size, at_s in zip(sizes, came_s[node], strict=True):
                from_s = max(at_s, own_s)
                free = max(from_s - burst_s, free) + (size + HEADER_BYTES) / rate
                arrived.append(max(from_s, free) + delay_s)
            free_s[node] = free
            arrivals.append(arrived)
        came_s = [arrivals[node - 1] for node in range(num_nodes)]
    return [max(each) for each in came_s]


def _sizes(chunk: float) -> list[float]:
    segment = segment_bytes(chunk)
    full = [float(segment)] * int(chunk // segment)
    rest = chunk - sum(full)
    return [*full, rest] if rest > 1e-6 or not full else full
