"""All-reduce: buckets leave while earlier layers are computed, one after the other.

A ring passes each of N chunks on 2 (N - 1) times; how fast it turns stands in `ring`. Recursive
halving and doubling needs 2 log N exchanges only.

A bucket is averaged when the slowest worker has it. A worker that is late itself waits for less
than the others do: what it passes on then does not hold it up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

from paceline.arithmetic.costs import Costs
from paceline.arithmetic.exchange import BUCKET_BYTES, AllReducePattern
from paceline.arithmetic.network import HEADER_BYTES, LinkRate, Network
from paceline.arithmetic.racks import halving_rates
from paceline.arithmetic.ring import segment_bytes, turning
from paceline.arithmetic.step import ComputeStep

HALVED_AT_ONCE_BYTES: Final = 1 << 23


@final
@dataclass(frozen=True, kw_only=True)
class Summing:
    """What a bucket's all-reduce takes."""

    sending_s: float
    """How long a rank sends: the next bucket may begin then."""
    whole_s: float
    """Until every rank has all of it."""
    late_s: float
    """Until a rank has all of it that came when all others had waited for it."""
    travels_s: float
    """How long its bytes are on a rank's link."""
    latency_s: float
    """What of it is waiting for the first byte of a hop."""


@final
@dataclass(frozen=True, kw_only=True)
class RingStep:
    """A step of all workers in step."""

    step_s: float
    link_s: float
    """How long a node's link is busy each way."""
    latency_s: float
    """What of it is latency that nothing hides."""


def around_ring(num_ranks: int) -> float:
    """How often the bytes of a bucket leave every rank, and as often come in."""
    return 2 * (num_ranks - 1) / num_ranks


def reduction(
    num_bytes: int, num_nodes: int, network: Network, costs: Costs, algorithm: str = "ring"
) -> Summing:
    """Say how long one bucket takes between nodes."""
    if num_nodes == 1 or not num_bytes:
        return Summing(sending_s=0.0, whole_s=0.0, late_s=0.0, travels_s=0.0, latency_s=0.0)
    if algorithm == "auto":
        tried = [reduction(num_bytes, num_nodes, network, costs, e) for e in ("ring", "halving")]
        return min(tried, key=lambda each: each.whole_s)
    if algorithm == "halving":
        return _halving(num_bytes, num_nodes, network, costs)
    return _ring(num_bytes, num_nodes, network, costs)


def _ring(num_bytes: int, num_nodes: int, network: Network, costs: Costs) -> Summing:
    num_hops = 2 * (num_nodes - 1)
    turns = turning(num_bytes / num_nodes, num_nodes, network, costs)
    sending_s = (num_hops - 1) * turns.hop_s + turns.chunk_s
    travels_s, whole_s = num_hops * turns.chunk_s, sending_s + turns.delay_s
    return Summing(
        sending_s=sending_s,
        whole_s=whole_s,
        late_s=min(whole_s, turns.late_s),
        travels_s=travels_s,
        latency_s=max(0.0, sending_s + network.latency_s - travels_s),
    )


def num_messages(num_bytes: int, exchange: AllReducePattern, num_ranks: int) -> int:
    """Count the messages of a rank in a step, about."""
    if num_ranks == 1:
        return 0
    chunk = min(num_bytes, exchange.bucket_bytes) / num_ranks
    count = math.ceil(num_bytes / exchange.bucket_bytes) * 2 * (num_ranks - 1)
    return count * max(1, math.ceil(chunk / segment_bytes(chunk)))


def _halving(num_bytes: int, num_nodes: int, network: Network, costs: Costs) -> Summing:
    """Pairs exchange half of what is left, log N times, and the other way round.

    Nodes beyond the largest power of two hand all they have to another first, and get it back.
    """
    rounds = int(math.log2(num_nodes))
    power = 2**rounds
    halves = [num_bytes / 2 ** (each + 1) for each in range(rounds)]
    pieces = [*halves, *halves[::-1]]
    if power != num_nodes:
        pieces += [num_bytes, num_bytes]
    rates = halving_rates(network, num_nodes)
    travels_s = sum(
        rate.seconds(each + HEADER_BYTES) for rate, each in zip(rates, pieces, strict=True)
    )
    handled_s = sum(2 * costs.message(each) + costs.add_s_per_byte * each for each in pieces)
    at_once = math.ceil(num_bytes / HALVED_AT_ONCE_BYTES)
    waits_s = at_once * len(pieces) * network.latency_s
    whole_s = travels_s + handled_s + waits_s
    return Summing(
        sending_s=whole_s,
        whole_s=whole_s,
        late_s=whole_s,
        travels_s=travels_s,
        latency_s=waits_s,
    )


def buckets(step: ComputeStep, exchange: AllReducePattern) -> list[tuple[float, int]]:
    """Group gradients as the strategy does: when each bucket may leave, and its bytes.

    The last one waits for the end of the step.
    """
    most = exchange.first_bucket_bytes or exchange.bucket_bytes
    found: list[tuple[float, int]] = []
    for each in step.gradients:
        if found and found[-1][1] + each.num_bytes <= most:
            found[-1] = (each.ready_s, found[-1][1] + each.num_bytes)
        else:
            most = most if not found else exchange.bucket_bytes
            found.append((each.ready_s, each.num_bytes))
    return [*found[:-1], (step.compute_s, found[-1][1])] if found else []


def all_reduce_step(
    step: ComputeStep,
    exchange: AllReducePattern,
    *,
    num_workers: int,
    num_nodes: int,
    network: Network,
    costs: Costs,
    is_late: bool = False,
) -> RingStep:
    """Predict a step, given one of the slowest worker of each.

    `is_late`: as that worker sees it, where it is always the same one.
    """
    inside = num_workers // num_nodes if exchange.shares_memory else 1
    ranks = num_nodes if exchange.shares_memory else num_workers
    sent_s = ended_s = link_s = latency_s = 0.0
    cut = buckets(step, exchange)
    for index, (ready_s, num_bytes) in enumerate(cut):
        begins_s = max(ready_s if exchange.overlap else step.compute_s, sent_s)
        within_s = (inside - 1) * num_bytes * costs.add_s_per_byte
        one = reduction(num_bytes, ranks, network, costs, exchange.algorithm)
        sent_s = begins_s + within_s + one.sending_s
        takes_s = one.late_s if is_late and index == len(cut) - 1 else one.whole_s
        ended_s = max(ended_s, begins_s + within_s + takes_s)
        link_s += one.travels_s
        latency_s += one.latency_s
    whole_s = max(step.compute_s, ended_s) + step.update_s
    exposed_s = max(0.0, ended_s - step.compute_s)
    shown_s = min(latency_s, exposed_s)
    sharing = 1 if exchange.shares_memory else max(1, num_workers // num_nodes)
    return RingStep(step_s=whole_s, link_s=link_s / sharing, latency_s=shown_s)


def ring_step_s(
    step: ComputeStep, link: LinkRate, num_workers: int, bucket_bytes: int = BUCKET_BYTES
) -> float:
    """Predict a step of `ring` on equal links, where handling and latency cost nothing."""
    return all_reduce_step(
        step,
        AllReducePattern(bucket_bytes=bucket_bytes),
        num_workers=num_workers,
        num_nodes=num_workers,
        network=Network(link=link),
        costs=Costs(),
    ).step_s
