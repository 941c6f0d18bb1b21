"""What travelled between the nodes of a run: what was measured, beside what theory says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from paceline.outcome.accounts import SeatAccount, ServerAccount, WorkerAccount
from paceline.outcome.facts import Facts
from paceline.outcome.results import CountedBy, NodeTraffic, PairTraffic, Traffic, WorkerTotals
from paceline.seats import role_of

Row = dict[str, Any]


class NodeCount(NamedTuple):
    """What a node sent and received while training, and who says so."""

    sent_bytes: int
    received_bytes: int
    packets_sent: int | None
    packets_received: int | None
    counted_by: CountedBy


def counted_on(
    node: str, facts: Facts, rows: Sequence[Row], workers: Sequence[WorkerTotals]
) -> NodeCount | None:
    """Give what the kernel counted at the node's link; without one, what the transports did."""
    last = rows[-1] if rows else {}
    sent, received = last.get("net_sent_bytes"), last.get("net_received_bytes")
    if sent is not None and received is not None:
        packets = last.get("packets_sent"), last.get("packets_received")
        return NodeCount(sent, received, *packets, "qdisc")
    return _told_on(node, facts, workers)


def _told_on(node: str, facts: Facts, workers: Sequence[WorkerTotals]) -> NodeCount | None:
    """On one node every byte is sent there and received there."""
    told = [each for each in workers if each.sent_bytes is not None]
    if len(facts.seats) > 1 or not told or len(told) < len(workers):
        return None
    moved = sum(each.sent_bytes or 0 for each in told)
    if any(role_of(seat) == "server" for seat in facts.seats[node]):
        moved += sum(each.received_bytes or 0 for each in told)  # a server sent those
    return NodeCount(moved, moved, None, None, "transports")


def traffic_of(
    facts: Facts,
    counted: Mapping[str, NodeCount | None],
    workers: Mapping[str, WorkerAccount],
    servers: Mapping[str, ServerAccount],
) -> Traffic | None:
    """Join what was counted on every node with the strategy's closed form."""
    if len(facts.seats) < 2:
        return None
    node_of = {seat: node for node, seats in facts.seats.items() for seat in seats}
    expected = _expected(facts, workers)
    nodes = [
        _node_traffic(node, each, expected, node_of)
        for node, each in counted.items()
        if each is not None and expected is not None
    ]
    return Traffic(nodes=tuple(nodes), pairs=_pairs({**workers, **servers}, node_of))


def _expected(
    facts: Facts, workers: Mapping[str, WorkerAccount]
) -> Counter[tuple[str, str]] | None:
    """What went from seat to seat by theory, given the steps that each worker made."""
    if facts.flows is None:
        return None
    found: Counter[tuple[str, str]] = Counter()
    for sender, receiver, share, worker in facts.flows:
        told = workers.get(worker)
        if told is None or told.parameter_bytes is None:
            return None
        num_bytes = round(share * told.parameter_bytes * told.worker_steps)
        found[sender, receiver] += num_bytes
    return found


def _node_traffic(
    node: str,
    counted: NodeCount,
    expected: Counter[tuple[str, str]],
    node_of: Mapping[str, str],
) -> NodeTraffic:
    crossing = {pair: n for pair, n in expected.items() if node_of[pair[0]] != node_of[pair[1]]}
    sent = sum(n for (sender, _), n in crossing.items() if node_of[sender] == node)
    received = sum(n for (_, receiver), n in crossing.items() if node_of[receiver] == node)
    return NodeTraffic(
        node=node,
        sent_bytes=counted.sent_bytes,
        expected_sent_bytes=sent,
        sent_ratio=counted.sent_bytes / sent if sent else None,
        received_bytes=counted.received_bytes,
        expected_received_bytes=received,
        received_ratio=counted.received_bytes / received if received else None,
    )


def _pairs(said: Mapping[str, SeatAccount], node_of: Mapping[str, str]) -> tuple[PairTraffic, ...]:
    found: Counter[tuple[str, str]] = Counter()
    for sender, told in said.items():
        for receiver, num_bytes in told.sent_to.items():
            found[node_of[sender], node_of[receiver]] += num_bytes
    return tuple(
        PairTraffic(sender=sender, receiver=receiver, num_bytes=num_bytes)
        for (sender, receiver), num_bytes in sorted(found.items())
        if sender != receiver and num_bytes
    )
