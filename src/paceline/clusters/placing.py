"""Who sits where, on nodes that are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.comm.roster import Seat


def placed(
    nodes: Sequence[str], num_workers: int, num_servers: int, *, servers_apart: bool
) -> list[Seat]:
    """Spread workers evenly over the first nodes, servers over the same or over those behind.

    A monitor is on every node that somebody sits on.
    """
    num_apart = num_servers if servers_apart else 0
    homes = nodes[: len(nodes) - num_apart]
    kept_on = nodes[len(homes) :] if servers_apart else homes
    workers = [
        Seat("worker", index, homes[index * len(homes) // num_workers])
        for index in range(num_workers)
    ]
    servers = [Seat("server", index, kept_on[index % len(kept_on)]) for index in range(num_servers)]
    used = {seat.node for seat in (*workers, *servers)}
    watched = [node for node in nodes if node in used]
    monitors = [Seat("monitor", index, node) for index, node in enumerate(watched)]
    return [*workers, *servers, *monitors]


def empty_nodes(num_nodes: int, num_workers: int, num_apart: int) -> Iterator[str]:
    """Say why some of the nodes would have nobody to sit there; `num_apart` hold only servers."""
    if num_nodes <= num_apart:
        yield f"{num_apart} of them hold only servers; workers need at least one more"
    elif num_nodes > num_workers + num_apart:
        yield f"{num_workers} workers leave some of them empty"
