"""Who sits on which node, and which of them are so alike that one stands for all.

Workers fill nodes evenly. Servers sit beside them, one per node from the first on, or on nodes of
their own behind. What is alike in every respect is simulated once, with a count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from paceline.arithmetic.exchange import Servers


@final
@dataclass(frozen=True, kw_only=True)
class SeatGroup:
    """Nodes that are alike: `count` of them, with so many workers and servers on each."""

    node: int
    """The number of the first one."""
    count: int
    workers: int = 0
    """On each of them."""
    servers: int = 0


def groups_of(
    exchange: Servers, num_workers: int, num_nodes: int, *, alike: bool
) -> list[SeatGroup]:
    """Seat workers and servers; `num_nodes` are those with workers.

    `alike`: nodes that have the same seats behave the same, so that one stands for all of them.
    """
    seats = [[0, 0] for _ in range(num_nodes + exchange.num_servers * exchange.apart)]
    for worker in range(num_workers):
        seats[worker * num_nodes // num_workers][0] += 1
    first = num_nodes if exchange.apart else 0
    homes = exchange.num_servers if exchange.apart else num_nodes
    for server in range(exchange.num_servers):
        seats[first + server % homes][1] += 1
    if not alike:
        return [
            SeatGroup(node=node, count=1, workers=workers, servers=servers)
            for node, (workers, servers) in enumerate(seats)
        ]
    found: dict[tuple[int, int], list[int]] = {}
    for node, (workers, servers) in enumerate(seats):
        found.setdefault((workers, servers), []).append(node)
    return [
        SeatGroup(node=nodes[0], count=len(nodes), workers=workers, servers=servers)
        for (workers, servers), nodes in found.items()
    ]
