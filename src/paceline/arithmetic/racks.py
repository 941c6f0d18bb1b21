"""Racks share an uplink: how much of a strategy's traffic the busiest one carries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

from paceline.arithmetic.exchange import Servers
from paceline.arithmetic.layout import groups_of
from paceline.arithmetic.network import LinkRate, Network
from paceline.arithmetic.step import ComputeStep


@final
@dataclass(frozen=True, kw_only=True)
class RackLoad:
    """What the busiest uplink carries each way in a step of all workers."""

    exchanged_s: float = 0.0
    after_s: float = 0.0
    """For the answers that are still to come when all gradients are in."""
    outside: int = 0
    """Workers in other racks than the first server."""


NO_RACKS: Final = RackLoad()


def rack_load(
    step: ComputeStep, exchange: Servers, num_workers: int, num_nodes: int, network: Network
) -> RackLoad:
    """Add up what workers and servers of different racks send each other.

    Gradients go one way and parameters the other; of a table's rows there is less to answer.
    """
    if network.uplink is None:
        return NO_RACKS
    seats = _seats(exchange, num_workers, num_nodes, network.rack or 1)
    part, back = (each / exchange.num_servers for each in (step.pushed_bytes, step.pulled_bytes))
    rows = step.rows.received_bytes / exchange.num_servers if step.rows else 0.0
    chunk = min(exchange.chunk_of(step.num_bytes), step.num_bytes / exchange.num_servers) + rows
    loads = []
    for workers, servers in seats:
        answered = servers * (num_workers - workers)
        pushed = workers * (exchange.num_servers - servers)
        each_way = max(answered * back + pushed * part, answered * part + pushed * back)
        after = max(0.0, answered * chunk - pushed * back)
        loads.append((network.uplink.seconds(each_way), network.uplink.seconds(after)))
    exchanged_s, after_s = max(loads)
    beside = next(workers for workers, servers in seats if servers)
    return RackLoad(exchanged_s=exchanged_s, after_s=after_s, outside=num_workers - beside)


@lru_cache(maxsize=64)
def _seats(
    exchange: Servers, num_workers: int, num_nodes: int, rack: int
) -> tuple[tuple[int, int], ...]:
    """Count workers and servers of each rack."""
    racks: dict[int, tuple[int, int]] = {}
    for each in groups_of(exchange, num_workers, num_nodes, alike=False):
        workers, servers = racks.get(each.node // rack, (0, 0))
        racks[each.node // rack] = (workers + each.workers, servers + each.servers)
    return tuple(racks.values())


def halving_rates(network: Network, num_nodes: int) -> list[LinkRate]:
    """Give the rate of every exchange of recursive halving, of doubling, and of the odd nodes.

    Neighbours far apart exchange first; all nodes of a rack then share its uplink.
    """
    link = network.slowest(num_nodes)
    rack = network.rack or 1 if network.uplink is not None else num_nodes
    rates = []
    for crossing in _crossing(num_nodes, rack):
        shared = network.uplink.bits_per_s / crossing if network.uplink and crossing else None
        rates.append(link if shared is None else LinkRate(bits_per_s=min(link.bits_per_s, shared)))
    return rates


@lru_cache(maxsize=64)
def _crossing(num_nodes: int, rack: int) -> tuple[int, ...]:
    """Count for every exchange how many nodes of a rack have a partner in another one, at most."""
    power = 1 << (num_nodes.bit_length() - 1)
    paired = num_nodes - power
    ranks = [2 * each if each < paired else paired + each for each in range(power)]
    distances = [power >> each for each in range(1, power.bit_length())]
    rounds = [[(ranks[each], ranks[each ^ far]) for each in range(power)] for far in distances]
    odd = [[(2 * each, 2 * each + 1) for each in range(paired)]] * (2 * bool(paired))
    return tuple(_most_leaving(pairs, rack) for pairs in (*rounds, *rounds[::-1], *odd))


def _most_leaving(pairs: list[tuple[int, int]], rack: int) -> int:
    leaving: dict[int, int] = {}
    for one, other in pairs:
        if one // rack != other // rack:
            leaving[one // rack] = leaving.get(one // rack, 0) + 1
    return max(leaving.values(), default=0)
