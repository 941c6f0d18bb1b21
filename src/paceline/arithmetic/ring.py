"""Around a ring: how long a bucket takes from node to node, where links may differ.

Each of N chunks is passed on 2 (N - 1) times. A node sends a chunk when it has sent the one before,
and when it has received what it adds to it. So two things bound how fast a ring turns:

- the slowest link, which has to carry every chunk, one after the other, and never waits if the
  others are far enough ahead;
- the way of one chunk around the whole ring: the bytes of its first segment on every link, and at
  every node the latency and the handling. One slow link is one of N there, and no more.

Latency and a slow link do not add up: while the slow link is busy, latency passes elsewhere.

A node that comes later than all others finds what it has to add already there. It goes on when it
has received the N - 1 sums, not when it has passed all of them on, which it does while it computes
again. So for a node that is slow in every step only half of the ring is still to come.

A large chunk travels in segments, so that one is added and passed on while the next arrives.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final, final

from paceline.arithmetic.costs import Costs
from paceline.arithmetic.network import HEADER_BYTES, LinkRate, Network

SEGMENT_BYTES: Final = 1 << 20
LEAST_SEGMENT_BYTES: Final = 1 << 17
SEGMENTS: Final = 4
SMALL_CHUNK_BYTES: Final = 1 << 16


@final
@dataclass(frozen=True, kw_only=True)
class Turning:
    """What a ring takes for a bucket."""

    hop_s: float
    """From one chunk to the next, at every node."""
    chunk_s: float
    """How long a chunk is on the slowest link."""
    delay_s: float
    """What comes on top of a segment's bytes, from one node to the next."""
    late_s: float
    """From the moment the last node is there until it has all sums."""


def turning(chunk: float, num_nodes: int, network: Network, costs: Costs) -> Turning:
    """Say how fast a ring turns that passes on chunks of so many bytes."""
    segment = min(chunk, segment_bytes(chunk))
    num_segments = max(1, math.ceil(chunk / segment))
    links = links_between(network, num_nodes)
    chunk_s = min(links).seconds(chunk + num_segments * HEADER_BYTES)
    handled_s = 2 * costs.message(segment) + costs.add_s_per_byte * segment
    delay_s = network.latency_s + handled_s
    # A link that waited for its chunk has saved up a burst by then.
    first_s = sum(
        count * max(0.0, link.seconds(segment + HEADER_BYTES) - network.burst_s)
        for link, count in links.items()
    )
    busy_s, passed_s = max(chunk_s, num_segments * handled_s), first_s / num_nodes + delay_s
    return Turning(
        hop_s=max(busy_s, passed_s),
        chunk_s=chunk_s,
        delay_s=delay_s,
        late_s=(num_nodes - 1) * (busy_s + passed_s) + delay_s,
    )


def links_between(network: Network, num_nodes: int) -> Counter[LinkRate]:
    """Count the ways from each node to the next one by their rates.

    Neighbours sit in one rack wherever they can, so that an uplink carries one chunk at a time.
    """
    own = [node for node in network.links if node < num_nodes]
    differing = {way % num_nodes for node in own for way in (node - 1, node)}
    if network.uplink is not None and network.num_racks(num_nodes) > 1:
        rack = network.rack or 1
        differing |= {*range(rack - 1, num_nodes, rack), num_nodes - 1}
    found = Counter(rate_between(way, network, num_nodes) for way in differing)
    found[network.link] += num_nodes - len(differing)
    return +found


def rate_between(node: int, network: Network, num_nodes: int) -> LinkRate:
    """Give the slowest of what a node's chunks pass on the way to the next one."""
    following = (node + 1) % num_nodes
    ways = [network.link_of(node), network.link_of(following)]
    if network.uplink is not None and network.rack_of(node) != network.rack_of(following):
        ways.append(network.uplink)
    return min(ways)


def segment_bytes(chunk: float) -> float:
    """Say how large the segments of a chunk are."""
    if chunk <= SMALL_CHUNK_BYTES:
        return max(1.0, chunk)
    return max(LEAST_SEGMENT_BYTES, min(SEGMENT_BYTES, chunk / SEGMENTS))
